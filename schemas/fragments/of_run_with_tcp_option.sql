-- Rows of the requested run; the newest is one with rows of tcp_option, which may have no probes. Ids begin with the time.
({run:String} = '' OR run = {run:String} OR ({run:String} = 'newest' AND run IN (SELECT max(tcp_option.run) FROM ${database}.tcp_option)))
