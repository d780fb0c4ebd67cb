-- Rows of the requested run. The newest run is the newest with probes.
({run:String} = '' OR run = {run:String} OR ({run:String} = 'newest' AND run IN (SELECT run FROM ${database}.newest_run)))
