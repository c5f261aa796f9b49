package upstream

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// Facts is what Postgres says about the room it has and how it is run.
type Facts struct {
	MaxConnections      int // max_connections
	SuperuserReserved   int // superuser_reserved_connections
	ReservedConnections int // reserved_connections; 0 before Postgres 16
	OtherBackends       int // client backends besides the one that asks and those that it names as its own
	RoleLimit           int // CONNECTION LIMIT of the role that asks; negative: none

	ServerVersion           string // server_version, as in "15.20 (Debian 15.20-1)"
	InRecovery              bool   // it is a standby
	SynchronousStandbyNames string // synchronous_standby_names; not "": commits wait for standbys

	Where Place // who has answered
}

// factsQuery asks for them. A role without pg_monitor sees of the sessions of others
// only that they are there; those that have a database count as client backends, so
// that rather too many are counted than too few.
// own are the process ids of backends that are not to be counted.
func factsQuery(own []uint32) string {
	list := make([]string, 0, len(own)+1)
	list = append(list, "pg_catalog.pg_backend_pid()")
	for _, pid := range own {
		list = append(list, strconv.FormatUint(uint64(pid), 10))
	}
	return `SELECT pg_catalog.current_setting('max_connections'),
 pg_catalog.current_setting('superuser_reserved_connections'),
 coalesce(pg_catalog.current_setting('reserved_connections', true), '0'),
 (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity
  WHERE pid <> ALL (ARRAY[` + strings.Join(list, ",") + `]::bigint[])
   AND (backend_type = 'client backend' OR backend_type IS NULL AND datid IS NOT NULL)),
 (SELECT rolconnlimit FROM pg_catalog.pg_roles WHERE rolname = current_user),
 pg_catalog.current_setting('server_version'),
 pg_catalog.pg_is_in_recovery(),
 pg_catalog.current_setting('synchronous_standby_names')`
}

// Ask logs in as a Dial would and asks for the facts. own are the backends of the caller's
// other connections. Its errors are those of Dial,
// and the server's own in the same form.
func (c *Cluster) Ask(ctx context.Context, r Request, own ...uint32) (Facts, error) {
	s, err := c.Dial(ctx, r)
	if err != nil {
		return Facts{}, err
	}
	defer s.End(ctx)
	row, err := s.Query(ctx, factsQuery(own))
	if err != nil {
		return Facts{}, &HostError{s.Where, err}
	}
	f := Facts{Where: s.Where}
	if err := f.read(row); err != nil {
		return Facts{}, &HostError{s.Where, err}
	}
	return f, nil
}

// standbysQuery asks for synchronous_standby_names.
const standbysQuery = `SELECT pg_catalog.current_setting('synchronous_standby_names')`

// CommitsAlone logs in as a Dial would and asks whether commits wait for no standby there:
// synchronous_standby_names is empty. It says who has answered. Its errors are those of Ask.
func (c *Cluster) CommitsAlone(ctx context.Context, r Request) (alone bool, where Place, err error) {
	s, err := c.Dial(ctx, r)
	if err != nil {
		return false, Place{}, err
	}
	defer s.End(ctx)
	row, err := s.Query(ctx, standbysQuery)
	if err == nil && len(row) != 1 {
		err = fmt.Errorf("%w: %d columns", login.ErrProtocol, len(row))
	}
	if err != nil {
		return false, s.Where, &HostError{s.Where, err}
	}
	return strings.TrimSpace(row[0]) == "", s.Where, nil
}

// read takes the columns of factsQuery.
func (f *Facts) read(row []string) error {
	numbers := []*int{&f.MaxConnections, &f.SuperuserReserved, &f.ReservedConnections, &f.OtherBackends, &f.RoleLimit}
	if len(row) != len(numbers)+3 {
		return fmt.Errorf("%w: %d columns", login.ErrProtocol, len(row))
	}
	for i, to := range numbers {
		n, err := strconv.Atoi(row[i])
		if err != nil {
			return fmt.Errorf("%w: not a number: %w", login.ErrProtocol, err)
		}
		*to = n
	}
	rest := row[len(numbers):]
	f.ServerVersion, f.InRecovery, f.SynchronousStandbyNames = rest[0], rest[1] == "t", rest[2]
	return nil
}

// locksQuery asks for how long backends wait for locks, in ms: "pid:ms" for each that does,
// with commas between; ms is -1 where Postgres does not tell (before version 14).
func locksQuery(pids []uint32) string {
	list := make([]string, 0, len(pids))
	for _, pid := range pids {
		list = append(list, strconv.FormatUint(uint64(pid), 10))
	}
	return `SELECT coalesce(pg_catalog.string_agg(pid || ':' || ms, ','), '') FROM (
 SELECT pid, coalesce(pg_catalog.floor(1000 * pg_catalog.max(extract(epoch FROM pg_catalog.clock_timestamp() -
  (pg_catalog.to_jsonb(l) ->> 'waitstart')::timestamptz)))::bigint, -1) AS ms
 FROM pg_catalog.pg_locks l WHERE NOT granted AND pid = ANY (ARRAY[` + strings.Join(list, ",") + `]::int[]) GROUP BY pid) w`
}

// LockWaits logs in as a Dial would and asks which of some backends wait for a lock there, and
// for how long; negative = that is not known. It says who has answered. Its errors are those
// of Ask.
func (c *Cluster) LockWaits(ctx context.Context, r Request, pids []uint32) (waits map[uint32]time.Duration, where Place, err error) {
	s, err := c.Dial(ctx, r)
	if err != nil {
		return nil, Place{}, err
	}
	defer s.End(ctx)
	row, err := s.Query(ctx, locksQuery(pids))
	if err == nil && len(row) != 1 {
		err = fmt.Errorf("%w: %d columns", login.ErrProtocol, len(row))
	}
	if err == nil {
		waits, err = readWaits(row[0])
	}
	if err != nil {
		return nil, s.Where, &HostError{s.Where, err}
	}
	return waits, s.Where, nil
}

// readWaits reads the answer to locksQuery.
func readWaits(text string) (map[uint32]time.Duration, error) {
	waits := make(map[uint32]time.Duration)
	for pair := range strings.SplitSeq(text, ",") {
		if pair == "" {
			continue
		}
		pid, ms, _ := strings.Cut(pair, ":")
		p, err := strconv.ParseUint(pid, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%w: not a process id: %w", login.ErrProtocol, err)
		}
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: not a number: %w", login.ErrProtocol, err)
		}
		waits[uint32(p)] = time.Duration(n) * time.Millisecond
	}
	return waits, nil
}
