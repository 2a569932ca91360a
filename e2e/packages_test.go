package e2e

import "testing"

// commonPackages are what models ask for most, each with a program that does something real with it.
func commonPackages() map[string]struct{ code, want string } {
	return map[string]struct{ code, want string }{
		"numpy": {
			"import numpy as np; print(np.linalg.solve([[2.0, 0], [0, 4]], [2, 4]).tolist())", "[1.0, 1.0]\n",
		},
		"pandas": {
			"import pandas as pd; print(pd.DataFrame({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]}).groupby('k').v.sum().to_dict())", "{'a': 4, 'b': 2}\n",
		},
		"matplotlib": {
			"import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.savefig('/tmp/a.png'); plt.close(); print(open('/tmp/a.png', 'rb').read(4))", "b'\\x89PNG'\n",
		},
		"scikit-learn": {
			"from sklearn.linear_model import LinearRegression as L; print(round(float(L().fit([[0], [1], [2]], [1, 3, 5]).predict([[3]])[0]), 6))", "7.0\n",
		},
		"requests[socks]": {
			`import http.server, threading, requests, socks
from urllib3.contrib.socks import SOCKSProxyManager
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'hello')
    def log_message(self, *words): pass
server = http.server.HTTPServer(('127.0.0.1', 0), Hello)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(requests.get(f'http://127.0.0.1:{server.server_port}/').text)`, "hello\n",
		},
		"opencv-python-headless": {
			"import cv2, numpy; ok, png = cv2.imencode('.png', numpy.zeros((4, 4, 3), numpy.uint8)); print(ok, cv2.imdecode(png, 1).shape)", "True (4, 4, 3)\n",
		},
		"pillow": {
			"from PIL import Image; print(Image.new('RGB', (2, 2), 'red').resize((4, 4)).getpixel((3, 3)))", "(255, 0, 0)\n",
		},
		"lxml": {
			"from lxml import etree; print(etree.fromstring('<a><b>x</b></a>').xpath('//b/text()'))", "['x']\n",
		},
		"polars": {
			"import polars as pl; print(pl.DataFrame({'k': ['a', 'b', 'a'], 'v': [1, 2, 3]}).group_by('k').agg(pl.col('v').sum()).sort('k').rows())", "[('a', 4), ('b', 2)]\n",
		},
		"sympy": {
			"import sympy as s; x = s.symbols('x'); print(s.solve(x**2 - 4, x), s.integrate(s.sin(x), (x, 0, s.pi)))", "[-2, 2] 2\n",
		},
	}
}

// TestCommonPackages installs them all as one environment, and uses each.
func TestCommonPackages(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	s := serve(t, setup{pooled: true})
	var names []string
	for name := range commonPackages() {
		names = append(names, name)
	}
	for name, p := range commonPackages() {
		t.Run(name, func(t *testing.T) {
			outcome{stdout: p.want}.check(t, s.run(t, program(p.code, "dependencies", names, "timeout_seconds", 120)))
		})
	}
	if n := s.installed(); n != 1 {
		t.Errorf("installed %d times", n)
	}
}
