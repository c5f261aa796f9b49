package state

import "context"

// Inspector is what can be seen of a running pgweir. proxy.Proxy implements it.
type Inspector interface {
	// Snapshot returns the state of now. The loop is held up for well under a millisecond
	// at a time, whatever there is to tell.
	Snapshot(ctx context.Context) (*Snapshot, error)
	// Clients calls f with the sessions, some hundred at a time.
	Clients(ctx context.Context, f func([]Client) error) error
	// Servers returns the server connections.
	Servers(ctx context.Context) ([]Server, error)
	// Refusals returns the last refusals, newest first: at most a thousand, those of clients
	// that were turned away before they had a session among them.
	Refusals(ctx context.Context) ([]Refusal, error)
	// Tenants returns the tenants that matter most, those with the most waiters first, then
	// those that were served for longest: at most a thousand of each upstream.
	Tenants(ctx context.Context) ([]Tenant, error)
}

// Health is what a load balancer wants to know.
type Health struct {
	Draining bool // SIGTERM came, or Shutdown: nobody new should be sent here
	Paused   bool // at least one upstream is paused
	Down     bool // at least one upstream has no server and the last login failed
}

// Pulse is a question so cheap that it may come every second. proxy.Proxy implements it.
type Pulse interface {
	// Health is answered by the event loop. The error is ctx's if the loop does not
	// answer, or control.ErrEnded.
	Health(ctx context.Context) (Health, error)
}
