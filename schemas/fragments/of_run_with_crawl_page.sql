-- Rows of the requested run. The newest run is the newest with rows of crawl_page; it may have no probes. Ids start with the time.
({run:String} = '' OR run = {run:String} OR ({run:String} = 'newest' AND run IN (SELECT max(crawl_page.run) FROM ${database}.crawl_page)))
