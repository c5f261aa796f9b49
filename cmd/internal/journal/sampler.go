package journal

import "log/slog"

// quiet is for how long no line of the same kind follows one in the log.
const quiet = 10e9

// maxKinds bounds the kinds of lines and of refusals that are told apart.
const maxKinds = 1000

// Sampler lets one log line of each kind K through and counts those that it keeps back. It
// is for one goroutine; the zero value is ready.
type Sampler[K comparable] struct {
	kinds map[K]*sample
}

type sample struct {
	until int64
	more  int
}

// due reports whether a line of the kind is to be logged now, and how many were kept back
// since the last one.
func (s *Sampler[K]) due(kind K, now int64) (more int, due bool) {
	if s.kinds == nil {
		s.kinds = make(map[K]*sample)
	}
	k := s.kinds[kind]
	if k == nil {
		if len(s.kinds) >= maxKinds {
			clear(s.kinds)
		}
		k = &sample{}
		s.kinds[kind] = k
	}
	if now < k.until {
		k.more++
		return 0, false
	}
	more = k.more
	k.until, k.more = now+quiet, 0
	return more, true
}

// Note logs a warning at now, in ns of any clock, unless one of its kind was logged just now.
func (s *Sampler[K]) Note(log *slog.Logger, kind K, now int64, msg string, args ...any) {
	if more, due := s.due(kind, now); due {
		warn(log, more, msg, args...)
	}
}

// warn logs a line after so many of its kind that were kept back.
func warn(log *slog.Logger, more int, msg string, args ...any) {
	if more > 0 {
		args = append(args, "unlogged_before", more)
	}
	log.Warn(msg, args...)
}
