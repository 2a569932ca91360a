package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/boxwright/boxwright/adapters/auth"
	"github.com/boxwright/boxwright/adapters/config"
	"github.com/boxwright/boxwright/adapters/web"
	"github.com/boxwright/boxwright/core"
	"github.com/boxwright/boxwright/core/app"
	"github.com/boxwright/boxwright/ports/identity"
)

// newAuthenticator tells who calls; nil where nobody is asked.
func newAuthenticator(c config.Auth, store identity.Store, log *slog.Logger) (*auth.Authenticator, error) {
	if c.Mode == config.AuthNone {
		return nil, nil //nolint:nilnil // there is none, and that is no fault
	}
	options := auth.Options{Now: time.Now, Log: log}
	if c.UsesKeys() {
		options.Keys = store
	}
	if c.UsesTokens() {
		issuer, err := newIssuer(c.OIDC, log)
		if err != nil {
			return nil, err
		}
		options.Issuer = issuer
	}
	return auth.New(options), nil
}

func newIssuer(c config.OIDC, log *slog.Logger) (*auth.Issuer, error) {
	return auth.NewIssuer(auth.IssuerOptions{
		URL: c.Issuer, Audience: c.Audience, Algorithms: c.Algorithms, Skew: c.ClockSkew.Std(), Now: time.Now, Log: log,
		Claims: auth.ClaimOptions{
			Roles: c.RoleClaim, Admins: c.AdminRoles, Scopes: c.ScopeClaim, Prefix: c.ScopePrefix, Usual: c.Scopes(),
		},
	})
}

// authenticator asks the system's who sends a request; nil where nobody is asked.
func (s *system) authenticator() web.Authenticator {
	if s.auth == nil {
		return nil
	}
	return asker{s.auth}
}

type asker struct{ *auth.Authenticator }

// Authenticate implements web.Authenticator.
func (a asker) Authenticate(ctx context.Context, c web.Credential) (core.Principal, error) {
	return a.Authenticator.Authenticate(ctx, auth.Credential(c))
}

// newTenants keeps an audit log where somebody is asked who they are.
func newTenants(s *app.Service, c config.Config, store identity.Store) *app.Tenants {
	var audit identity.Audit
	if c.Auth.Mode != config.AuthNone {
		audit = store
	}
	return app.NewTenants(s, audit, c.Audit.Policy())
}

// offerSetup prints the token that makes the first administrator, if keys count and there is none yet.
func (s *system) offerSetup(ctx context.Context, c config.Auth) error {
	if !c.UsesKeys() {
		return nil
	}
	token, until, err := s.setup().Offer(ctx)
	if err != nil || token == "" {
		return err
	}
	s.log.Warn("there is no administrator yet; this token makes one, once: POST it to /setup with a name, or use boxwright users add",
		"token", token, "until", until.Format(time.RFC3339))
	return nil
}

// setup makes the first administrator. It is an http.Handler.
func (s *system) setup() auth.Setup { return auth.Setup{Store: s.identity, Now: time.Now, Log: s.log} }

// coreQuota is as the use cases understand it.
func coreQuota(q config.Quotas) app.Quota {
	return app.Quota{
		Boxes: q.Boxes, Runs: q.Runs, Memory: int64(q.Memory), CPU: time.Duration(q.CPUSeconds) * time.Second,
		Files: int64(q.Files), Calls: q.CallsPerMinute,
	}
}

// quotasOf are those of some principals.
func quotasOf(q config.Quotas) map[string]app.Quota {
	of := map[string]app.Quota{}
	for principal, own := range q.Of() {
		of[principal] = coreQuota(own)
	}
	return of
}
