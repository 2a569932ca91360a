package e2e

import (
	"archive/zip"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	indexUser     = "reader-7c1d"
	indexPassword = "s3same-1f9b"
)

// TestPrivateIndex installs from an index with a password and a certificate authority of its own,
// as companies have it. The password must be nowhere but there.
func TestPrivateIndex(t *testing.T) {
	require(t, "engine")
	t.Parallel()
	address, bundle := privateIndex(t)
	s := serve(t, setup{config: fmt.Sprintf(`log: {level: debug}
dependencies:
  index_url: https://%s:%s@%s/simple/
  ca_bundle: %s
`, indexUser, indexPassword, address, bundle)})
	secretless := func(what, text string) {
		t.Helper()
		if i := strings.Index(text, indexPassword); i >= 0 {
			t.Errorf("%s tells the password: …%.300s", what, text[max(0, i-200):])
		}
	}
	look := `import e2e_private, os
print(e2e_private.answer, dict(os.environ))
for folder, _, names in os.walk('/opt/boxwright'):
    for name in names:
        if b'` + indexPassword + `' in open(os.path.join(folder, name), 'rb').read(): print('found in', folder, name)`
	c := s.begin(t, program(look, "dependencies", []string{"e2e-private"}))
	r := c.wait(t)
	outcome{any: true}.check(t, r)
	if !strings.HasPrefix(r.Stdout, "42 {") || strings.Contains(r.Stdout, "found in") {
		t.Errorf("the program said %s", r.Stdout)
	}
	secretless("the result", r.raw+r.text)
	secretless("the progress", strings.Join(c.progress(), "\n"))

	c = s.begin(t, program("print(1)", "dependencies", []string{"e2e-not-there"}))
	r = c.wait(t)
	outcome{refused: "dependency", says: []string{"e2e-not-there"}}.check(t, r)
	secretless("the error", r.raw+r.text)
	secretless("the progress", strings.Join(c.progress(), "\n"))
	secretless("the log", s.stderr.String())
	_ = filepath.WalkDir(s.dir, func(path string, d os.DirEntry, _ error) error {
		if data, err := os.ReadFile(path); err == nil {
			secretless(path, string(data))
		}
		return nil
	})
}

// TestWrongPassword: an index that refuses is a plain error, still without the password.
func TestWrongPassword(t *testing.T) {
	require(t, "engine")
	onePlace(t)
	t.Parallel()
	address, bundle := privateIndex(t)
	const wrong = "wr0ng-55aa"
	s := serve(t, setup{config: fmt.Sprintf("log: {level: debug}\ndependencies: {index_url: \"https://%s:%s@%s/simple\", ca_bundle: %s}\n", indexUser, wrong, address, bundle)})
	r := s.run(t, program("print(1)", "dependencies", []string{"e2e-private"}))
	outcome{refused: "dependency"}.check(t, r)
	if strings.Contains(r.raw+r.text+s.stderr.String(), wrong) {
		t.Errorf("the password is told: %s\n%s", r.raw, s.stderr)
	}
}

// privateIndex serves one package to boxes, over TLS and for a password. It returns its address
// and the file of its certificate authority.
func privateIndex(t *testing.T) (address, bundle string) {
	t.Helper()
	listener := listenElsewhere(t)
	host, _, _ := net.SplitHostPort(listener.Addr().String())
	const wheel = "e2e_private-1.0-py3-none-any.whl"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /simple/e2e-private/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<!DOCTYPE html><a href="/files/%s">%s</a>`, wheel, wheel)
	})
	mux.HandleFunc("GET /files/"+wheel, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(wheelFile(t)) })
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != indexUser || password != indexPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="index"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.Config.ErrorLog = nil
	certificate, authority := certify(t, host)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	bundle = filepath.Join(here().folder(t), "authority.pem")
	if err := os.WriteFile(bundle, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	here().give(t, bundle)
	return listener.Addr().String(), bundle
}

// wheelFile is a package with one module.
func wheelFile(t *testing.T) []byte {
	t.Helper()
	var file bytes.Buffer
	w := zip.NewWriter(&file)
	for _, f := range []struct{ name, text string }{
		{"e2e_private/__init__.py", "answer = 42\n"},
		{"e2e_private-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: e2e-private\nVersion: 1.0\n"},
		{"e2e_private-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: e2e\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"e2e_private-1.0.dist-info/RECORD", "e2e_private/__init__.py,,\ne2e_private-1.0.dist-info/METADATA,,\ne2e_private-1.0.dist-info/WHEEL,,\ne2e_private-1.0.dist-info/RECORD,,\n"},
	} {
		part, err := w.Create(f.name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write([]byte(f.text))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// certify makes a certificate for an address, and the authority that signed it, as PEM.
func certify(t *testing.T, address string) (certificate tls.Certificate, authority []byte) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	from, until := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e authority"}, NotBefore: from, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "e2e index"}, NotBefore: from, NotAfter: until,
		IPAddresses: []net.IP{net.ParseIP(address)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	must(err)
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	must(err)
	return tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
}
