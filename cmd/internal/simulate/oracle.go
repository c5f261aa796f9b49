package simulate

// oracle finds refusals in vain: it lets the refused have what the slots have left over, first
// come first served, until somebody else takes it from them. Who gets as much as needed, and
// could have waited until it began, need not have been refused.
type oracle struct {
	slots   int
	running int
	now     int64
	wanting []shadow // refused, in the order of their refusals; from first on
	first   int
	served  []shadow // on slots that are left over, the one that began first first
	found   uint64
}

// shadow is somebody refused.
type shadow struct {
	until int64 // could have waited
	takes int64
	end   int64
}

func newOracle(slots int) *oracle { return &oracle{slots: slots} }

// refused adds one.
func (o *oracle) refused(now int64, r *request, until int64) {
	o.change(now, o.running)
	if until > now {
		o.wanting = append(o.wanting, shadow{until: until, takes: int64(r.finish)})
		o.begin(now)
	}
}

// change says how many run from now on.
func (o *oracle) change(now int64, running int) {
	for {
		i := o.earliest()
		if i < 0 || o.served[i].end > now {
			break
		}
		at := o.served[i].end
		o.served = append(o.served[:i], o.served[i+1:]...)
		o.found++
		o.begin(at)
	}
	o.running, o.now = running, now
	for len(o.served) > max(o.slots-running, 0) {
		o.served = o.served[:len(o.served)-1] // it would have had to wait on, and is too late by now
	}
	o.begin(now)
}

// earliest is who is done first; -1 = nobody is served.
func (o *oracle) earliest() int {
	found := -1
	for i := range o.served {
		if found < 0 || o.served[i].end < o.served[found].end {
			found = i
		}
	}
	return found
}

// begin lets those in who have room.
func (o *oracle) begin(now int64) {
	for o.first < len(o.wanting) && len(o.served) < o.slots-o.running {
		w := o.wanting[o.first]
		o.first++
		if w.until < now {
			continue
		}
		w.end = now + w.takes
		o.served = append(o.served, w)
	}
	if o.first == len(o.wanting) {
		o.wanting, o.first = o.wanting[:0], 0
	}
}
