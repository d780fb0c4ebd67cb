-- Rows of the requested run. The newest run is the newest with rows of tcp_option; it may have no probes. Ids start with the time.
({run:String} = '' OR run = {run:String} OR ({run:String} = 'newest' AND run IN (SELECT max(tcp_option.run) FROM ${database}.tcp_option)))
