-- Rows of the requested run. `newest` is the newest run with rows of these record kinds.
({run:String} = '' OR run = {run:String} OR ({run:String} = 'newest' AND run IN
    (SELECT newest_runs.run FROM ${database}.newest_runs WHERE newest_runs.kind IN (${arguments})
        ORDER BY newest_runs.began_at DESC LIMIT 1)))
