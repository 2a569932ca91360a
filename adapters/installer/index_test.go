package installer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// index is a small package index on the loopback interface: for each package its wheels by their names.
type index struct {
	wheels   map[string]map[string][]byte
	user     string // with the password; "" asks for none
	password string
	instead  http.HandlerFunc // answers everything, if it is set
}

func (x *index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if user, password, _ := r.BasicAuth(); x.user != "" && (user != x.user || password != x.password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="index"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if x.instead != nil {
		x.instead(w, r)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	name := parts[len(parts)-1]
	if content, has := x.wheels[parts[max(0, len(parts)-2)]][name]; has && parts[0] == "files" {
		_, _ = w.Write(content)
		return
	}
	wheels, has := x.wheels[name]
	if !has || parts[0] != "simple" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<!DOCTYPE html>")
	for file, content := range wheels {
		fmt.Fprintf(w, "<a href=\"/files/%s/%s#sha256=%s\">%s</a>\n", name, file, hashOf(content), file)
	}
}

func hashOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// offer adds wheels to the index: "corp-1.0".
func (x *index) offer(t *testing.T, name, version string, needs []string, files map[string]string) {
	t.Helper()
	if x.wheels == nil {
		x.wheels = map[string]map[string][]byte{}
	}
	if x.wheels[name] == nil {
		x.wheels[name] = map[string][]byte{}
	}
	x.wheels[name][wheelName(name, version)] = wheelOf(t, name, version, needs, files)
}

// serve returns the address of the index, and what it has to be called by.
func (x *index) serve(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewServer(x)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// serveTLS serves with a certificate authority of its own, whose file it returns, as index.test.
func (x *index) serveTLS(t *testing.T) (address, bundle string) {
	t.Helper()
	server := httptest.NewUnstartedServer(x)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	certificate, authority := certify(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	bundle = filepath.Join(t.TempDir(), "authority.pem")
	if err := os.WriteFile(bundle, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.Listener.Addr().String(), bundle
}

func certify(t *testing.T) (certificate tls.Certificate, authority []byte) {
	t.Helper()
	caKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "index.test"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"index.test"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err3 := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	leafDER, err4 := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	if errs := []error{err1, err2, err3, err4}; slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Fatal(errs)
	}
	return tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
}

// proxy passes connections to whatever host on to one address, for a password. It returns its own address, and
// tells how many it passed on.
func proxy(t *testing.T, user, password, to string) (address string, passed func() int) {
	t.Helper()
	connections := make(chan struct{}, 1000)
	want := (&http.Request{Header: http.Header{}})
	want.SetBasicAuth(user, password)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Proxy-Authorization") != want.Header.Get("Authorization") {
			w.Header().Set("Proxy-Authenticate", `Basic realm="proxy"`)
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		if r.Method != http.MethodConnect {
			http.Error(w, "only CONNECT", http.StatusMethodNotAllowed)
			return
		}
		there, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		connections <- struct{}{}
		w.WriteHeader(http.StatusOK)
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(there, here); _ = there.Close() }()
		_, _ = io.Copy(here, there)
		_ = here.Close()
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), func() int { return len(connections) }
}

// withPassword is a URL with credentials.
func withPassword(scheme, user, password, host, path string) string {
	return (&url.URL{Scheme: scheme, User: url.UserPassword(user, password), Host: host, Path: path}).String()
}
