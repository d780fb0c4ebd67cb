"""Finds a file of 1 to 10 MB on the web site of each name: the crawl (docs/design/0020).

stage, outline, targets     the stage, its dry run, the names of `firstflight crawl`
crawl, spider, visit        all names with Scrapy, several at a time, one name
journal, rows               finished names, and their rows
limits                      limits per name, page and request
fetching/                   requests: addresses, pace, connections, sizes of files
pages/                      answers: links, robots.txt, URLs
"""
