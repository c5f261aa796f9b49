package control

import (
	"context"
	"errors"
)

// Shutdown says how much a shutdown waits for.
type Shutdown uint8

// The kinds of shutdown. One that waits for less takes the place of one under way.
const (
	Now            Shutdown = iota // close everything at once
	WaitForServers                 // let transactions end; new ones are refused
	Drain                          // serve for drain_delay, then WaitForServers: SIGTERM
	WaitForClients                 // serve the clients that are there until they leave
)

// Errors of the control calls.
var (
	// ErrNoDatabase: no client could ask for such a name.
	ErrNoDatabase = errors.New("no such database")
	// ErrNoClient: it may have left.
	ErrNoClient = errors.New("no such client")
	// ErrTooManyNames: more names than are remembered before a client has used them.
	ErrTooManyNames = errors.New("too many databases that no client has used")
	// ErrEnded: the event loop has ended, or ends before it could answer.
	ErrEnded = errors.New("pgweir is shutting down")
)

// Control is what an administrator may do to a running pgweir. A database is a name that
// clients use; "" stands for all. One that only "*" covers may be paused and disabled before
// anybody has used it. proxy.Proxy implements it.
type Control interface {
	// Pause stops giving servers to clients, and the clocks of those who wait. It returns
	// when no transaction runs and no session keeps a server, and the idle servers are
	// closed; if ctx ends before, the pause goes on. ahead: no client has used that database
	// yet, so it is paused for those who come.
	Pause(ctx context.Context, database string) (ahead bool, err error)
	// Resume ends a Pause or what a Kill has left. changed is false if there was none.
	Resume(ctx context.Context, database string) (changed bool, err error)
	// Reconnect closes every server connection as soon as it is free.
	Reconnect(ctx context.Context, database string) error
	// Kill closes the clients and servers of a database at once and pauses it.
	Kill(ctx context.Context, database string) error
	// KillClient closes one session.
	KillClient(ctx context.Context, id uint64) error
	// Disable refuses new clients of a database, Enable lets them in again.
	Disable(ctx context.Context, database string) error
	Enable(ctx context.Context, database string) error
	// WaitClose returns when every server connection that Reconnect marked is closed.
	WaitClose(ctx context.Context, database string) error
	// Shutdown starts the end of the process and returns at once.
	Shutdown(how Shutdown)
}

// Change is one setting that a reload or SET has changed.
type Change struct {
	Key, Old, New string // secrets are masked
	Restart       bool   // it takes effect at the next start only
}

// Setting is one line of SHOW CONFIG.
type Setting struct {
	Key, Value, Default string
	Source              string // default, file:line, SET
	Reload              bool   // a reload or SET applies it
	Unit, Doc           string
}

// Problem is what is wrong with a configuration, for people.
type Problem struct {
	Text  string // one line: where and what
	Hint  string // what to write instead; may be empty
	Where string // the line with a caret; may be empty
}

// Configurator is the configuration of a running process, for console and HTTP.
type Configurator interface {
	// Reload reads the file again. Either there are problems and nothing has changed, or
	// the changes are in force.
	Reload(ctx context.Context) ([]Change, []Problem)
	// Set changes one key until the next reload.
	Set(ctx context.Context, key, value string) ([]Change, []Problem)
	// Warnings is what is odd about what is in force, a line each, as the log had it.
	Warnings() []string
	// Settings lists all keys.
	Settings() []Setting
}
