package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// startRemote starts a server that listens, with a real client of it.
func startRemote(ctx context.Context, p *benchPlace) (*mcpServer, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	command := p.program(filepath.Join(p.dir, "boxwright"), "serve", "--config", p.configFile(), "--transport", "http", "--listen", address)
	began := time.Now()
	if err := command.Start(); err != nil {
		return nil, err
	}
	stop := func() error { return errors.Join(command.Process.Signal(syscall.SIGTERM), command.Wait()) }
	if err := awaitListener(address); err != nil {
		return nil, errors.Join(err, stop())
	}
	c, err := client.NewStreamableHttpClient("http://" + address + "/mcp")
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	var request mcp.InitializeRequest
	request.Params.ProtocolVersion = "2025-11-25"
	request.Params.ClientInfo = mcp.Implementation{Name: "bench", Version: "1"}
	if _, err := c.Initialize(ctx, request); err != nil {
		return nil, errors.Join(err, stop())
	}
	return &mcpServer{
		Client: c, pid: command.Process.Pid, startup: time.Since(began),
		halt: func() error { return errors.Join(c.Close(), stop()) },
	}, nil
}

// freeAddress is one at which nobody listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

func awaitListener(address string) (err error) {
	for range 200 {
		var connection net.Conn
		if connection, err = net.Dial("tcp", address); err == nil {
			return connection.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}
