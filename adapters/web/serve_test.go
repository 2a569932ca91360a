package web

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/boxwright/boxwright/core"
)

func TestOnlyThisMachineWithoutKeys(t *testing.T) {
	for address, well := range map[string]bool{
		"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "127.9.9.9:0": true,
		"0.0.0.0:0": false, ":0": false, "[::]:0": false, "192.0.2.1:0": false,
	} {
		listener, err := Listen{Address: address}.Open(false)
		if err == nil {
			listener.Close()
		}
		refused := core.KindOf(err) == core.ErrInvalid && strings.Contains(err.Error(), "asks nobody for a key")
		if well && refused || !well && !refused {
			t.Errorf("%s: %v", address, err)
		}
	}
	listener, err := Listen{Address: "0.0.0.0:0"}.Open(true)
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
}

func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box.sock")
	listen := Listen{Socket: path}
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}) // as a killed server leaves it
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	listener, err := listen.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("it is %v, %v", info.Mode(), err)
	}
	if listener.Addr().String() != path {
		t.Errorf("it says that it is at %s", listener.Addr())
	}
	if _, err := listen.Open(false); err == nil || !strings.Contains(err.Error(), "another server listens") {
		t.Errorf("a second server: %v", err)
	}
	listener.Close()
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 0 {
		t.Errorf("it leaves %v", entries)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen.Open(false); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("in place of a file: %v", err)
	}
}

// run starts a server on a unix socket, or on TCP if there is TLS, and returns a way to end it.
func run(t *testing.T, o Options, handler http.HandlerFunc) (address string, end func() error) {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	listener, err := o.Listen.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s := New(o, Route{Pattern: "/{$}", Handler: handler, Open: true})
	go func() { done <- s.Serve(ctx, listener) }()
	return listener.Addr().String(), func() error { cancel(); return <-done }
}

func TestDrainLetsCallsEnd(t *testing.T) {
	began, drained, release := make(chan bool), make(chan bool), make(chan bool)
	o := Options{Listen: Listen{Address: "127.0.0.1:0"}, DrainTimeout: time.Minute, Drain: func() { close(drained) }}
	address, end := run(t, o, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-release
		fmt.Fprint(w, r.Context().Err())
	})
	answer := make(chan string, 1)
	go func() { answer <- get(http.DefaultClient, "http://"+address) }()
	<-began
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	<-drained
	close(release)
	if got := <-answer; got != "200 <nil>" {
		t.Errorf("the call under way got %s", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestCallsThatTakeTooLongAreCut(t *testing.T) {
	began, cut := make(chan bool), make(chan bool)
	o := Options{Listen: Listen{Address: "127.0.0.1:0"}, DrainTimeout: time.Millisecond, Cut: func() { close(cut) }}
	address, end := run(t, o, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		fmt.Fprint(w, "ended")
	})
	answer := make(chan string, 1)
	go func() { answer <- get(http.DefaultClient, "http://"+address) }()
	<-began
	if err := end(); err != nil {
		t.Error(err)
	}
	<-cut
	if got := <-answer; got != "200 ended" {
		t.Errorf("the call under way got %s", got)
	}
}

func get(client *http.Client, url string) string {
	response, err := client.Get(url)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", response.StatusCode, text)
}

func TestCertificateIsRenewed(t *testing.T) {
	dir := t.TempDir()
	listen := Listen{Address: "127.0.0.1:0", CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	writeCertificate(t, listen, "first")
	address, end := run(t, Options{Listen: listen, DrainTimeout: time.Minute}, func(http.ResponseWriter, *http.Request) {})
	serves := func(want string) {
		t.Helper()
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close()
		if got := connection.ConnectionState().PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("it shows the %s certificate, want the %s", got, want)
		}
	}
	serves("first")
	if err := os.WriteFile(listen.CertFile, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	serves("first")
	writeCertificate(t, listen, "second")
	serves("second")
	if err := end(); err != nil {
		t.Error(err)
	}
	if _, err := listen.newTLS(slog.New(slog.DiscardHandler)); err != nil {
		t.Error(err)
	}
	listen.KeyFile = filepath.Join(dir, "none.pem")
	if _, err := listen.newTLS(slog.New(slog.DiscardHandler)); core.KindOf(err) != core.ErrInvalid {
		t.Errorf("without a key: %v", err)
	}
}

func writeCertificate(t *testing.T, listen Listen, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{listen.KeyFile: {Type: "PRIVATE KEY", Bytes: private}, listen.CertFile: {Type: "CERTIFICATE", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
