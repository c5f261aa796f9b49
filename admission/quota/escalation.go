package quota

import (
	"fmt"
	"net/netip"
	"time"
)

// Action is what may be done to those who do not wait as they were told.
type Action uint8

// The actions. Each includes the one before it.
const (
	Answer Action = iota // only ever the refusal
	Delay                // the refusal is held back
	Block                // they are blocked for a while
	actions
)

var actionNames = [actions]string{"none", "delay", "block"}

// String returns the action as files name it.
func (a Action) String() string {
	if a >= actions {
		return "unknown"
	}
	return actionNames[a]
}

// UnmarshalText sets a by its name.
func (a *Action) UnmarshalText(text []byte) error {
	for i, n := range actionNames {
		if n == string(text) {
			*a = Action(i)
			return nil
		}
	}
	return fmt.Errorf("unknown escalation %q", text)
}

// MarshalText returns the name.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// When a level is entered, what is done there, and when it is left, in ns and numbers.
const (
	delayAfter  = 20 // violations in
	delayWindow = int64(10 * time.Second)
	delayFirst  = int64(time.Second) // the first delays: the hint, but no more than this
	delayDouble = 20                 // violations more, and they double,
	delayMost   = int64(5 * time.Second)

	blockAfter  = 100 // violations more in
	blockWindow = int64(60 * time.Second)
	blockFirst  = int64(10 * time.Second) // doubled for each other block in
	blockMemory = int64(time.Hour)        // this time, up to
	blockMost   = int64(5 * time.Minute)
	alarmAfter  = 3 // blocks in that time

	calm = int64(30 * time.Second) // without a violation is a level less

	maxParties = 10_000
	lookAround = 64 // parties, to find one that can be forgotten
)

// Levels of a party.
const (
	levelAnswer = iota
	levelDelay
	levelBlock
)

// Party is whoever is held responsible: a role at a client's address, which is the zero one
// for a Unix socket.
type Party struct {
	Address netip.Addr
	Role    string
}

// Sentence is what becomes of a refusal.
type Sentence struct {
	Hold    int64 // how long it is held back, in ns; 0 = not at all
	Blocked bool  // instead, the session ends: its party is blocked
	New     bool  // since just now
	Alarm   bool  // and so often that somebody should look at it
	Block   Blocked
}

// Blocked is a party that is blocked, or of which it is remembered that it was.
type Blocked struct {
	Party
	Level      int    // 0, 1 = its refusals are held back, 2 = it was blocked just now or is
	Since      int64  // when the last block began, in ns; 0 = never
	Until      int64  // when it ends, or ended
	Blocks     int    // in the last hour
	Violations uint64 // since it is remembered
}

// party is what is remembered of one.
type party struct {
	Blocked
	last   int64 // violation, or when the last level was taken off
	more   int   // violations since it has had a level
	first  window
	second window
	blocks [alarmBlocks]int64 // when the latest began, of those in the last hour; 0 = none
}

// alarmBlocks is how many blocks it takes until they are as long as they get, and more than
// alarmAfter.
const alarmBlocks = 6

// Escalation remembers who does not wait. It belongs to one goroutine.
type Escalation struct {
	byName  map[Party]*party
	list    []*party
	hand    int
	total   uint64 // blocks
	offence uint64 // violations
}

// NewEscalation returns one that remembers nobody.
func NewEscalation() *Escalation { return &Escalation{byName: make(map[Party]*party)} }

// Refused says what becomes of a refusal of who, by a rule that allows for most. violated:
// who had been told to wait until later than now. wait is what the refusal says, in ns.
func (e *Escalation) Refused(now int64, who Party, most Action, violated bool, wait int64) (s Sentence) {
	if most == Answer {
		return s
	}
	p := e.byName[who]
	if p == nil {
		if !violated {
			return s
		}
		p = e.remember(now, who)
	}
	p.forgive(now)
	if violated {
		e.offence++
		s.New = p.violates(now, most)
	}
	switch {
	case most == Block && now < p.Until:
		s.Blocked, s.Block = true, p.Blocked
		if s.New {
			e.total++
			s.Alarm = p.Blocks >= alarmAfter
		}
	case p.Level >= levelDelay:
		s.Hold = p.hold(wait)
	}
	return s
}

// hold is how long a refusal is held back, with a hint.
func (p *party) hold(wait int64) int64 {
	hold := min(wait, delayFirst)
	for range p.more / delayDouble {
		if hold *= 2; hold >= delayMost {
			return delayMost
		}
	}
	return hold
}

// forgive takes off a level for each while without a violation. A block is no such while.
func (p *party) forgive(now int64) {
	since := max(p.last, p.Until)
	for p.Level > levelAnswer && now-since >= calm {
		p.Level--
		since += calm
		p.last = since
		if p.Level == levelAnswer {
			p.more, p.first, p.second = 0, window{}, window{}
		}
	}
	p.Blocks = 0
	for _, at := range p.blocks {
		if at != 0 && now-at < blockMemory {
			p.Blocks++
		}
	}
}

// violates counts one violation more, and reports whether that was one too many.
func (p *party) violates(now int64, most Action) (blocked bool) {
	p.last = now
	p.Violations++
	if p.Level == levelAnswer {
		if p.first.add(now, delayWindow) >= delayAfter {
			p.Level = levelDelay
		}
		return false
	}
	p.more++
	if p.second.add(now, blockWindow) < blockAfter || most < Block || now < p.Until {
		return false
	}
	p.block(now)
	return true
}

// block begins a block.
func (p *party) block(now int64) {
	length := blockFirst
	for range p.Blocks {
		length = min(2*length, blockMost)
	}
	copy(p.blocks[1:], p.blocks[:])
	p.blocks[0] = now
	p.Blocks = min(p.Blocks+1, alarmBlocks)
	p.Level, p.second = levelBlock, window{}
	p.Since, p.Until = now, now+length
}

// remember makes a party known. Of too many one that matters little is forgotten.
func (e *Escalation) remember(now int64, who Party) *party {
	p := &party{Blocked: Blocked{Party: who}}
	e.byName[who] = p
	if len(e.list) < maxParties {
		e.list = append(e.list, p)
		return p
	}
	best := -1
	for range min(lookAround, len(e.list)) {
		e.hand = (e.hand + 1) % len(e.list)
		e.list[e.hand].forgive(now)
		if best < 0 || e.list[e.hand].lighter(e.list[best]) {
			best = e.hand
		}
	}
	delete(e.byName, e.list[best].Party)
	e.list[best] = p
	return p
}

// lighter reports whether less is lost with p than with other.
func (p *party) lighter(other *party) bool {
	switch {
	case p.Level != other.Level:
		return p.Level < other.Level
	case p.Blocks != other.Blocks:
		return p.Blocks < other.Blocks
	}
	return p.last < other.last
}

// Forget forgets everybody, and with that ends all blocks.
func (e *Escalation) Forget() {
	clear(e.byName)
	e.list, e.hand = nil, 0
}

// Blocks calls f with everybody who is blocked at now, or was within the last hour, until it
// returns false.
func (e *Escalation) Blocks(now int64, f func(Blocked) bool) {
	for _, p := range e.list {
		p.forgive(now)
		if (now < p.Until || p.Blocks > 0) && !f(p.Blocked) {
			return
		}
	}
}

// EscalationStats are counts since the start, and how many there are now.
type EscalationStats struct {
	Parties    int // remembered
	Blocked    int // now
	Violations uint64
	Blocks     uint64
}

// Stats returns the counts at now. It looks at all who are remembered.
func (e *Escalation) Stats(now int64) EscalationStats {
	s := EscalationStats{Parties: len(e.list), Violations: e.offence, Blocks: e.total}
	for _, p := range e.list {
		if now < p.Until {
			s.Blocked++
		}
	}
	return s
}
