package quota

// steps is how finely a window slides.
const steps = 10

// window counts what happened in the last while, to a step.
type window struct {
	n    [steps]uint16
	step int64 // the latest
	sum  int
}

// add counts one more at now and returns how many there were in the last width ns.
func (w *window) add(now, width int64) int {
	step := now / (width / steps)
	for passed := min(step-w.step, steps); passed > 0; passed-- {
		n := &w.n[(step-passed+1)%steps]
		w.sum -= int(*n)
		*n = 0
	}
	w.step = max(w.step, step)
	if n := &w.n[w.step%steps]; *n < 1<<16-1 {
		*n++
		w.sum++
	}
	return w.sum
}
