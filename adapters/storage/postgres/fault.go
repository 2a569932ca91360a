package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/boxwright/boxwright/core"
)

// Some SQLSTATEs.
const (
	uniqueViolation = "23505"
	readOnly        = "25006"
)

// staysGood tells whether a connection can be used after an error. One to a server that only reads now would stay
// with it, as others take over.
func staysGood(_ *pgconn.PgConn, err *pgconn.PgError) bool {
	return err.SeverityUnlocalized != "FATAL" && err.SeverityUnlocalized != "PANIC" && err.Code != readOnly
}

// stateOf is the SQLSTATE that the server answered, or "".
func stateOf(err error) string {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer.Code
	}
	return ""
}

// answer is what errors of the server mean whose SQLSTATE begins so.
type answer struct {
	state    string
	kind     core.Kind
	sentence string
	hint     string
}

const (
	again = "try again later; the next call connects by itself"
	wait  = "try again; if it stays so, look at what holds locks in the database"
	allow = "see storage.postgres.url and what its user may do in the database"
	room  = "make room on the machine of the database; the next call tries again"
)

// answers has the first that fits.
func answers() []answer {
	return []answer{
		{"08", core.ErrUnavailable, "PostgreSQL cannot be reached", again},
		{"57P", core.ErrUnavailable, "PostgreSQL cannot be reached", again},
		{"53300", core.ErrUnavailable, "PostgreSQL takes no more connections", "raise its max_connections, or try again later"},
		{"53", core.ErrExhausted, "PostgreSQL has no room left", room},
		{readOnly, core.ErrUnavailable, "PostgreSQL cannot be written to now", again},
		{"57014", core.ErrUnavailable, "PostgreSQL took too long", wait},
		{"55P03", core.ErrUnavailable, "PostgreSQL took too long", wait},
		{"40", core.ErrUnavailable, "PostgreSQL had to choose between two changes", "try again"},
		{"25P03", core.ErrUnavailable, "PostgreSQL took too long", wait},
		{"54", core.ErrInvalid, "what is to be kept is too large", ""},
		{"28", core.ErrUnavailable, "PostgreSQL refuses this server", allow},
		{"3D", core.ErrUnavailable, "PostgreSQL refuses this server", allow},
		{"3F", core.ErrUnavailable, "PostgreSQL refuses this server", allow},
		{"42501", core.ErrUnavailable, "PostgreSQL refuses this server", allow},
		{"58", core.ErrUnavailable, "PostgreSQL is in trouble with its disk", again},
	}
}

// fault gives an error a kind. It tells neither where the server is nor as whom we came there: clients see it.
func (d *DB) fault(ctx context.Context, err error) error {
	switch {
	case core.HasKind(err):
		return err
	case ctx.Err() != nil:
		return core.ContextError(ctx)
	case d.closed.Load():
		return core.Errorf(core.ErrUnavailable, "the database is not open any more")
	}
	if refusal, ok := errors.AsType[*pgconn.PgError](err); ok {
		return d.refusal(refusal)
	}
	if isLost(err) {
		return core.Errorf(core.ErrUnavailable, "PostgreSQL cannot be reached: %s", reason(err)).WithHint(again)
	}
	return core.Errorf(core.ErrInternal, "PostgreSQL: %w", err)
}

func (d *DB) refusal(of *pgconn.PgError) error {
	for _, known := range answers() {
		if strings.HasPrefix(of.Code, known.state) {
			return core.Errorf(known.kind, "%s: %s", known.sentence, of.Message).WithHint("%s", known.hint)
		}
	}
	if strings.HasPrefix(of.Code, "42") || strings.HasPrefix(of.Code, "XX") {
		return d.damaged(errors.New(of.Message)) // the tables are not as the schema made them, or cannot be read
	}
	return core.Errorf(core.ErrInternal, "PostgreSQL: %s", of.Message)
}

func (d *DB) damaged(err error) error {
	return core.Errorf(core.ErrUnavailable, "what is kept in the schema %s of PostgreSQL is damaged: %w", d.schema, err).
		WithHint("restore it from a backup, or set another storage.postgres.schema: sessions, runs, environments, users and keys are then forgotten")
}

// isLost tells that a connection could not be made or has ended.
func isLost(err error) bool {
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	if connecting || network || pgconn.SafeToRetry(err) || pgconn.Timeout(err) {
		return true
	}
	for _, lost := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, driver.ErrBadConn, sql.ErrConnDone, sql.ErrTxDone,
		pgconn.ErrConnClosed, pgx.ErrTxClosed, pgx.ErrTxCommitRollback,
	} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return false
}

// reason says why, without addresses and names.
func reason(err error) string {
	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		return unknown.Err
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is for another name, or by an authority that is not trusted here"
	}
	if failed, ok := errors.AsType[net.Error](err); ok && failed.Timeout() {
		return "it does not answer"
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return innermost(failed).Error()
	}
	if failed, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return innermost(failed).Error()
	}
	return "the connection was lost"
}

// innermost is the first cause: what is around it tells addresses.
func innermost(err error) error {
	for {
		several, ok := err.(interface{ Unwrap() []error })
		next := errors.Unwrap(err)
		if ok && len(several.Unwrap()) > 0 {
			next = several.Unwrap()[0]
		}
		if next == nil {
			return err
		}
		err = next
	}
}
