package catalog

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"

	"github.com/boxwright/boxwright/core"
)

// maxAnswer bounds an answer, in bytes. Those of packages with thousands of files have a few MiB.
const maxAnswer = 32 << 20

// answer is what an index said.
type answer struct {
	body      []byte
	mediaType string
	from      *url.URL // after redirections
}

// get fetches a document of an index. One that is not there is core.ErrNotFound. What the client says of a failure
// may hold the address, and thus is not passed on.
func (c *Catalog) get(ctx context.Context, from *url.URL, accept string, limit int64) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), http.NoBody)
	if err != nil {
		return answer{}, core.Errorf(core.ErrUnavailable, "the address of a package index cannot be read")
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("User-Agent", "boxwright")
	response, err := c.client.Do(request)
	if err != nil {
		return answer{}, unreachable(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := refusal(response.StatusCode); err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	if err != nil {
		return answer{}, unreachable(ctx, err)
	}
	if int64(len(body)) > limit {
		return answer{}, core.Errorf(core.ErrUnavailable, "the package index's answer has more than %s", core.FormatBytes(limit))
	}
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return answer{body: body, mediaType: mediaType, from: response.Request.URL}, nil
}

// refusal is the error of a status that is none of success.
func refusal(status int) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusNotFound, http.StatusGone:
		return core.Errorf(core.ErrNotFound, "the package index does not have it")
	case http.StatusNotAcceptable, http.StatusMethodNotAllowed:
		return core.Errorf(core.ErrUnsupported, "the package index cannot say it so")
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return core.Errorf(core.ErrUnavailable, "the package index or proxy refused the credentials").
			WithHint("the operator checks the credentials in dependencies.index_url and the proxy's")
	}
	return core.Errorf(core.ErrUnavailable, "the package index answered with status %d", status).WithHint("try again in a while")
}

// unreachable says why an index could not be asked, as far as that is known.
func unreachable(ctx context.Context, err error) error {
	const hint = "the operator checks the network, dependencies.index_url and the proxy settings"
	_, distrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, unnamed := errors.AsType[*net.DNSError](err)
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return core.ContextError(ctx)
	case distrusted:
		return core.Errorf(core.ErrUnavailable, "the package index's certificate is not trusted").
			WithHint("the operator sets dependencies.ca_bundle to the certificate authority's file")
	case unnamed:
		return core.Errorf(core.ErrUnavailable, "the package index cannot be reached: its name is not known here").WithHint(hint)
	case ctx.Err() != nil || timeout != nil && timeout.Timeout():
		return core.Errorf(core.ErrUnavailable, "the package index did not answer in time").WithHint(hint)
	}
	return core.Errorf(core.ErrUnavailable, "the package index cannot be reached").WithHint(hint)
}
