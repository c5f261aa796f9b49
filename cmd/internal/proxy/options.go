package proxy

import (
	"context"
	"log/slog"
	"net"

	"github.com/pgweir/pgweir/cmd/internal/plan"
	"github.com/pgweir/pgweir/wire"
)

// Options are what a proxy has for all its life: plain values, already validated.
type Options struct {
	Listeners       []net.Listener
	MaxLogins       int // connections that have not authenticated yet
	TextLimit       int // bytes of a statement that are looked at
	StatementMemory int // bytes for the texts of prepared statements
	Settings        *plan.Settings
	Log             *slog.Logger
	NoRing          bool // no io_uring for sends, also where there is one

	// Process tells the processes apart that listen on one port (so_reuseport): it is in
	// the cancel keys of their clients. 0 = there is only this one; at most MaxProcess.
	Process uint32
	// Forward sends a cancel request to the process that it names. It returns when that
	// one has dealt with it. nil = there are no others.
	Forward func(ctx context.Context, process uint32, r *wire.CancelRequest)
	// Console serves an administrator who has authenticated, until its connection ends
	// or ctx does. nil = there is no console.
	Console func(ctx context.Context, conn net.Conn, who Administrator)
}

// Administrator is who has connected to the console.
type Administrator struct {
	Role     string
	Database string // as asked for: "pgweir" or "pgbouncer"
	Admin    bool   // may change things; else only look
	Addr     string
	Key      wire.CancelKey
	Params   []wire.Param    // of the startup packet
	Cancel   <-chan struct{} // gets a value for each cancel request with Key
}
