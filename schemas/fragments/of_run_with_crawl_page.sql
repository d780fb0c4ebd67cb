-- Rows of the requested run; the newest is one with rows of crawl_page, which may have no probes. Ids begin with the time.
({run:String} = '' OR run = {run:String} OR ({run:String} = 'newest' AND run IN (SELECT max(crawl_page.run) FROM ${database}.crawl_page)))
