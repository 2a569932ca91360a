package postgres_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/boxwright/boxwright/adapters/storage/postgres"
	"github.com/boxwright/boxwright/adapters/storage/postgres/postgrestest"
	"github.com/boxwright/boxwright/core"
)

// wins tells how many of the calls succeed that two servers make at the same time, over connections that are there.
func wins(servers [2]*postgres.DB, call func(db *postgres.DB, i int) error) int {
	var won atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range 8 {
		all.Go(func() {
			<-start
			if call(servers[i%2], i) == nil {
				won.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	return int(won.Load())
}

// TestTwoServersAtOnce: what one of several may have, one gets, and no quota is exceeded, however often they try.
func TestTwoServersAtOnce(t *testing.T) {
	server := postgrestest.Serve(t)
	servers := [2]*postgres.DB{open(t, server, ""), open(t, server, "")}
	for round := range 20 {
		id := fmt.Sprint("r", round)
		run := core.Run{ID: id, Owner: "ann", Server: "dead", State: core.RunUnderWay, Started: time.Unix(1, 0)}
		if err := servers[0].Runs().Put(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		taken := wins(servers, func(db *postgres.DB, i int) error {
			return db.Runs().TakeOver(t.Context(), id, "dead", fmt.Sprint("server", i))
		})
		held := wins(servers, func(db *postgres.DB, i int) error {
			h := core.Holding{Run: fmt.Sprint(id, i), Owner: "owner of " + id, Bytes: 3, Since: time.Unix(1, 0)}
			return db.Identity().Hold(t.Context(), h, 10)
		})
		named := wins(servers, func(db *postgres.DB, i int) error {
			s := someSession(fmt.Sprint(id, i))
			s.Name = id
			return db.Sessions().Add(t.Context(), s)
		})
		if taken != 1 || held != 3 || named != 1 {
			t.Errorf("round %d: %d took one run over, %d held 3 bytes of 10, %d have one name", round, taken, held, named)
		}
	}
}
