package wiretest

// Op says what a Step does.
type Op uint8

// The kinds of Step.
const (
	// OpSend sends Bytes.
	OpSend Op = iota + 1
	// OpWaitReady waits until everything that was sent is answered: N
	// ReadyForQuery, if nothing is refused, cancelled or lost.
	OpWaitReady
	// OpWaitFlush waits until everything that was sent is answered, or until
	// the server waits for CopyData.
	OpWaitFlush
	// OpCancel sends a CancelRequest for this session on a connection of its own.
	OpCancel
	// OpClose closes the connection, without Terminate.
	OpClose
	// OpHalfClose closes the sending side and reads on.
	OpHalfClose
)

// Step is one act of a client.
type Step struct {
	Op    Op
	Bytes []byte // OpSend
	N     int    // OpWaitReady
}

// Player plays a script as a client does: it keeps back what has to wait for
// answers. Not safe for concurrent use.
type Player struct {
	Tracker Tracker
	steps   []Step
	asked   bool // Resync was sent
	closed  bool
}

// NewPlayer returns a player at the first step.
func NewPlayer(steps []Step) *Player { return &Player{steps: steps} }

// Next returns the next act: OpSend, OpCancel, OpClose or OpHalfClose. It
// returns false while the client waits, and after the last step. The caller
// performs the act at once; sent bytes count as sent.
func (p *Player) Next() (Step, bool) {
	for len(p.steps) > 0 && !p.closed {
		s := p.steps[0]
		switch s.Op {
		case OpWaitReady, OpWaitFlush:
			if p.Tracker.Unsure() && s.Op == OpWaitReady {
				if p.asked {
					return Step{}, false
				}
				p.asked = true
				return Step{Op: OpSend, Bytes: p.Tracker.Resync()}, true
			}
			p.asked = false
			if !p.Tracker.Settled() && (s.Op == OpWaitReady || !p.Tracker.Flushed()) {
				return Step{}, false
			}
			p.steps = p.steps[1:]
			continue
		case OpSend:
			p.Tracker.Sent(s.Bytes)
		case OpClose:
			p.closed = true
		}
		p.steps = p.steps[1:]
		return s, true
	}
	return Step{}, false
}

// Received takes bytes from the server.
func (p *Player) Received(b []byte) { p.Tracker.Received(b) }

// Closed notes that the server closed the connection: nothing is sent any more.
func (p *Player) Closed() { p.closed = true }

// Done says that no step is left, or that the connection is closed.
func (p *Player) Done() bool { return p.closed || len(p.steps) == 0 }

// Waiting returns the operation of the step that is due, 0 after the last.
func (p *Player) Waiting() Op {
	if p.Done() {
		return 0
	}
	return p.steps[0].Op
}
