package console

import (
	"github.com/pgweir/pgweir/cmd/internal/state"
)

// The figures of SHOW STATS, in PgBouncer's order; the last one is ours.
const (
	assignments = iota
	transactions
	queries
	received
	sent
	transactionTime // microseconds, here and below
	queryTime
	waitTime
	clientParses
	serverParses
	binds
	logins
	refused
	stats
)

// statName is what the four tables call a figure.
type statName struct {
	total, average        string // SHOW STATS
	alone                 string // SHOW STATS_TOTALS
	rate                  string // SHOW STATS_AVERAGES
	totalOfAll, rateOfAll string // SHOW TOTALS
}

// statNames are PgBouncer's names, with all their moods.
func statNames() [stats]statName {
	same := func(n string) statName {
		return statName{"total_" + n, "avg_" + n, n, n, "total_" + n, "avg_" + n}
	}
	prepared := func(n, ofAll string) statName {
		return statName{"total_" + n, "avg_" + n, n, "avg_" + n, "total_" + ofAll, "avg_" + ofAll}
	}
	return [stats]statName{
		assignments:     same("server_assignment_count"),
		transactions:    same("xact_count"),
		queries:         same("query_count"),
		received:        {"total_received", "avg_recv", "bytes_received", "bytes_received", "total_client_bytes", "avg_client_bytes"},
		sent:            {"total_sent", "avg_sent", "bytes_sent", "bytes_sent", "total_server_bytes", "avg_server_bytes"},
		transactionTime: same("xact_time"),
		queryTime:       same("query_time"),
		waitTime:        same("wait_time"),
		clientParses:    prepared("client_parse_count", "ps_client_parse_count"),
		serverParses:    prepared("server_parse_count", "ps_server_parse_count"),
		binds:           prepared("bind_count", "ps_bind_count"),
		logins:          prepared("client_login_count", "client_login_count"),
		refused:         prepared("refused_count", "refused_count"),
	}
}

// figures are the totals, in the order of the constants.
func figures(t state.Traffic) [stats]uint64 {
	return [stats]uint64{
		assignments: t.Assignments, transactions: t.Transactions, queries: t.Queries,
		received: t.Received, sent: t.Sent,
		transactionTime: uint64(t.TransactionTime.Microseconds()), queryTime: uint64(t.QueryTime.Microseconds()),
		waitTime: uint64(t.WaitTime.Microseconds()), clientParses: t.ClientParses, serverParses: t.ServerParses,
		binds: t.Binds, logins: t.Logins, refused: t.Refused,
	}
}

// statViews are the tables about what has passed.
func statViews() []view {
	both, totals, rates := []string{"database"}, []string{"database"}, []string{"database"}
	names := statNames()
	for _, n := range names[:refused] {
		both = append(both, "#"+n.total)
		totals, rates = append(totals, "#"+n.alone), append(rates, "#"+n.rate)
	}
	for _, n := range names[:refused] {
		both = append(both, "#"+n.average)
	}
	ours := names[refused]
	both = append(both, "#"+ours.total, "#"+ours.average)
	totals, rates = append(totals, "#"+ours.alone), append(rates, "#"+ours.rate)
	return []view{
		{
			name: "STATS", what: "what has passed, by database: totals, and averages of the last minute; times in microseconds",
			columns: columns(both...), theirs: len(both) - 2, rows: snapshotRows(statistics(true, true)),
		},
		{
			name: "STATS_TOTALS", what: "its totals",
			columns: columns(totals...), theirs: len(totals) - 1, rows: snapshotRows(statistics(true, false)),
		},
		{
			name: "STATS_AVERAGES", what: "its averages",
			columns: columns(rates...), theirs: len(rates) - 1, rows: snapshotRows(statistics(false, true)),
		},
		{
			name: "TOTALS", what: "the same over all databases",
			columns: columns("name", "#value"), theirs: 2, rows: snapshotRows(sums),
		},
	}
}

// statistics makes the rows of the tables by database.
func statistics(totals, rates bool) func(*query, *state.Snapshot) error {
	return func(q *query, s *state.Snapshot) error {
		then := q.c.past.since(s.Started)
		for i := range s.Databases {
			d := &s.Databases[i]
			now := figures(d.Traffic)
			mean := averages(d.Traffic, then.database[d.Name], s.Now.Sub(then.at))
			r := q.begin().text(d.Name)
			if totals {
				r.total(now[:refused]...)
			}
			if rates {
				r.total(mean[:refused]...)
			}
			if totals {
				r.total(now[refused])
			}
			if rates {
				r.total(mean[refused])
			}
			if err := q.end(r); err != nil {
				return err
			}
		}
		return nil
	}
}

func sums(q *query, s *state.Snapshot) error {
	then := q.c.past.since(s.Started)
	now := figures(s.Traffic)
	mean := averages(s.Traffic, then.all, s.Now.Sub(then.at))
	names := statNames()
	shown := stats
	if q.strict {
		shown = refused
	}
	for i := range shown {
		if err := q.end(q.begin().text(names[i].totalOfAll).total(now[i])); err != nil {
			return err
		}
	}
	for i := range shown {
		if err := q.end(q.begin().text(names[i].rateOfAll).total(mean[i])); err != nil {
			return err
		}
	}
	return nil
}
