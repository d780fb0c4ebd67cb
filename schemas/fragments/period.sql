-- The first day of the row's period, according to the parameter step.
multiIf({step:String} = 'month', toStartOfMonth(day), {step:String} = 'week', toMonday(day), day)
