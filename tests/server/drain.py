"""SIGTERM under load: every request that was sent is answered, readiness turns false, the server exits with 0."""
import http.client
import json
import sys
import threading
import time

from running_server import Server

server = Server(sys.argv[1], "--drain-delay=1", "--exit-timeout-secs=10")
body = json.dumps({"inputs": [{"name": n, "datatype": "FP32", "shape": [1, 3], "data": [1, 2, 3]} for n in "ab"]})
answered, wrong, stop = [0] * 4, [], threading.Event()


def drive(index):
    connection = None
    while not stop.is_set():
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=10)
                connection.connect()
        except OSError:
            return  # it no longer listens
        try:
            connection.request("POST", "/v2/models/add_sub/infer", body)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            wrong.append(repr(error))
            return
        answered[index] += 1
        if answer.status != 200 or json.loads(data)["outputs"][0]["data"] != [2, 4, 6]:
            wrong.append((answer.status, data))
        if answer.getheader("connection") == "close":
            connection.close()
            connection = None


threads = [threading.Thread(target=drive, args=[i]) for i in range(4)]
for thread in threads:
    thread.start()
time.sleep(1)
server.process.terminate()
time.sleep(0.3)
assert server.get("/v2/health/ready")[0] == 503, "it is still ready"
assert server.get("/v2/health/live")[0] == 200
status = server.process.wait(20)
stop.set()
for thread in threads:
    thread.join()
assert status == 0, status
assert not wrong, wrong[:3]
assert min(answered) > 50, answered
print("answered", sum(answered), "requests, lost none")
