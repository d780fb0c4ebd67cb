-- The first day of the period that a row's day belongs to, by the parameter step.
multiIf({step:String} = 'month', toStartOfMonth(day), {step:String} = 'week', toMonday(day), day)
