-- Rows of the requested run; the newest is one with rows of download, which may have no probes. Ids begin with the time.
({run:String} = '' OR run = {run:String} OR ({run:String} = 'newest' AND run IN (SELECT max(download.run) FROM ${database}.download)))
