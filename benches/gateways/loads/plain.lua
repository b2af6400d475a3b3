-- Arguments: a file of tokens and a file of targets (path, tab, body), one a line.

local function lines(path)
  local all = {}
  for line in io.lines(path) do all[#all + 1] = line end
  return all
end

function init(args)
  local tokens, targets = lines(args[1]), lines(args[2])
  local function set(number)
    local path, body = targets[(number - 1) % #targets + 1]:match("^(.-)\t(.*)$")
    wrk.method, wrk.path, wrk.body = "POST", path, body
    wrk.headers["Authorization"] = "Bearer " .. tokens[(number - 1) % #tokens + 1]
    wrk.headers["Content-Type"] = "application/json"
    wrk.headers["x-ns-ctx-team"] = "ml"
  end
  set(1)
  local many = math.max(#tokens, #targets)
  if many == 1 then return end
  -- Made ahead, so that the load costs the same.
  local made, next = {}, 0
  for number = 1, many do
    set(number)
    made[number] = wrk.format()
  end
  request = function()
    next = next % many + 1
    return made[next]
  end
end

function done(summary, latency)
  local errors = summary.errors
  print(string.format('{"requests":%d,"micros":%d,"refused":%d,"failed":%d,"p50":%d,"p99":%d}',
    summary.requests, summary.duration, errors.status,
    errors.connect + errors.read + errors.write + errors.timeout, latency:percentile(50), latency:percentile(99)))
end
