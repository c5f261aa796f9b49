// Package console is what psql -d pgweir talks to: SHOW tables about a running pgweir, with
// PgBouncer's columns first and in its order, and the commands that pause, reload and end it.
//
// It needs no Postgres: it asks the [Guard] and nobody else. One [Console] serves any number
// of administrators, each with its own goroutines; what it holds of one of them is bounded
// (messages, prepared statements, rows on their way, the time a slow reader may take).
//
// Drivers do not know that they talk to a console. They send SET, BEGIN, SELECT 1 and their
// like, over the simple and the extended protocol, and get a sensible answer; real SQL is
// refused with a hint. Commands take effect at once: COMMIT and ROLLBACK change nothing.
//
// Somebody who connects to the database pgbouncer gets PgBouncer's columns and no others, so
// that tools which count columns work unchanged. In every other name ours follow.
package console
