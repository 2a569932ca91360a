package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/boxwright/boxwright/adapters/transport/mcphttp"
)

// keepOutEvery is how often is looked whether users were removed or disabled: other processes do that.
const keepOutEvery = 5 * time.Second

// keepOut ends what users have who may not use the server any more, until ctx ends.
func (s *system) keepOut(ctx context.Context, connections *mcphttp.Server) {
	for {
		if err := s.expelAll(ctx, connections); err != nil && ctx.Err() == nil {
			s.log.Warn("what removed and disabled users have could not all be ended; it is tried again soon", "error", err)
		}
		select {
		case <-time.After(keepOutEvery):
		case <-ctx.Done():
			return
		}
	}
}

// expelAll looks once. Who cannot be asked about stays.
func (s *system) expelAll(ctx context.Context, connections *mcphttp.Server) error {
	owners, err := s.service.Owners(ctx)
	owners = append(owners, connections.Owners()...)
	slices.Sort(owners)
	errs := []error{err}
	for _, owner := range slices.Compact(owners) {
		counts, err := s.counts(ctx, owner)
		if err == nil && !counts {
			s.log.Info("ending what a user has who was removed or disabled", "user", owner)
			connections.Expel(owner) // first: its calls make nothing more
			err = s.service.Expel(ctx, owner)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
