package relay

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/pgweir/pgweir/wire"
)

// Param is a setting and its value, as a startup packet or ParameterStatus has
// them. Names are compared without regard to case.
type Param = wire.Param

// Params is a set of settings that differ from a server's defaults. It is
// immutable and shared.
type Params struct {
	kv      []Param // by lower-cased name, each once, in the order in which they are to be set
	size    int     // bytes of names and values
	meaning uint64  // hash of all but application_name
	texts   uint64  // hash of all that can change what the text of a statement means
	temp    bool    // tables without a schema may be temporary ones
	acting  bool    // as another role than that of the login
}

const (
	// applicationName is the one setting that never changes a statement's meaning.
	applicationName = "application_name"
	// sessionAuthorization and role say as whom the session acts. The first takes the second
	// back, and neither is reset by RESET ALL.
	sessionAuthorization = "session_authorization"
	role                 = "role"
	searchPath           = "search_path"
)

// NoParams is the empty set.
func NoParams() *Params { return &Params{} }

// NewParams returns the set of the given settings; of equal names the last
// counts, as in Postgres.
func NewParams(list []Param) *Params {
	kv := make([]Param, 0, len(list))
	for _, p := range list {
		p.Name = strings.ToLower(p.Name)
		kv = slices.DeleteFunc(kv, func(o Param) bool { return o.Name == p.Name })
		kv = append(kv, p)
	}
	slices.SortFunc(kv, func(a, b Param) int {
		return cmp.Or(cmp.Compare(rank(a.Name), rank(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return finish(kv)
}

// rank orders the settings of a startup packet: the right to set them may be the login's own.
func rank(name string) int {
	switch name {
	case sessionAuthorization:
		return 1
	case role:
		return 2
	}
	return 0
}

func finish(kv []Param) *Params {
	ps := &Params{kv: kv}
	for _, p := range kv {
		ps.size += len(p.Name) + len(p.Value)
		if p.Name != applicationName {
			h := maphash.Comparable(meaningSeed, p)
			ps.meaning += h
			if changesTexts(p.Name) {
				ps.texts += h
			}
		}
		switch p.Name {
		case searchPath:
			ps.temp = strings.Contains(strings.ToLower(p.Value), "pg_temp")
		case role, sessionAuthorization:
			ps.acting = true
		}
	}
	return ps
}

// meaningSeed makes the hash unpredictable for clients that choose the values.
var meaningSeed = maphash.MakeSeed()

// All returns the settings in the order in which they are to be set. The caller must not
// change them.
func (ps *Params) All() []Param { return ps.kv }

// Meaning identifies the set but for application_name.
func (ps *Params) Meaning() uint64 { return ps.meaning }

func (ps *Params) find(name string) (int, bool) {
	for i := range ps.kv {
		if ps.kv[i].Name == name {
			return i, true
		}
	}
	return 0, false
}

// Get returns the value of a lower-cased name.
func (ps *Params) Get(name string) (string, bool) {
	if i, ok := ps.find(name); ok {
		return ps.kv[i].Value, true
	}
	return "", false
}

// has reports whether the set has this name with this value.
func (ps *Params) has(p Param) bool {
	v, ok := ps.Get(p.Name)
	return ok && v == p.Value
}

// equal compares two sets by content.
func (ps *Params) equal(o *Params) bool {
	if ps == o {
		return true
	}
	if ps.meaning != o.meaning || len(ps.kv) != len(o.kv) {
		return false
	}
	for _, p := range ps.kv {
		if !o.has(p) {
			return false
		}
	}
	return true
}

// with returns the set with name, lower-cased, at value; without it when the
// value is the default.
func (ps *Params) with(name, value string, isDefault bool) *Params {
	i, ok := ps.find(name)
	switch {
	case ok && !isDefault && ps.kv[i].Value == value, !ok && isDefault:
		return ps
	case isDefault:
		return finish(slices.Delete(slices.Clone(ps.kv), i, i+1))
	case ok && (ps.acting || acts(name)): // as whom it is set may count
		return finish(append(slices.Delete(slices.Clone(ps.kv), i, i+1), Param{Name: name, Value: value}))
	case ok:
		kv := slices.Clone(ps.kv)
		kv[i].Value = value
		return finish(kv)
	}
	return finish(append(slices.Clone(ps.kv), Param{Name: name, Value: value}))
}

// What is known of settings by their names.

// changesTexts reports whether a setting can change what the text of a statement means to
// the parser. Settings of extensions do not, and these few known ones.
func changesTexts(name string) bool {
	return name != applicationName && !atRun(name) && !strings.Contains(name, ".")
}

// atRun tells settings that any role may set, and that count when a statement runs, not when
// it is read.
func atRun(name string) bool {
	switch name {
	case "statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout",
		"work_mem", "maintenance_work_mem", "hash_mem_multiplier", "extra_float_digits", "bytea_output", "client_min_messages",
		"default_transaction_isolation", "default_transaction_read_only", "default_transaction_deferrable", "synchronous_commit",
		"plan_cache_mode", "random_page_cost", "seq_page_cost", "effective_cache_size", "jit", "join_collapse_limit",
		"from_collapse_limit", "max_parallel_workers_per_gather", "default_statistics_target", "default_tablespace",
		"default_table_access_method", "check_function_bodies", "tcp_keepalives_idle", "tcp_keepalives_interval",
		"tcp_keepalives_count", "tcp_user_timeout":
		return true
	}
	return strings.HasPrefix(name, "enable_")
}

// anybodys tells settings that any role may set and reset.
func anybodys(name string) bool {
	return atRun(name) || Reported(name) || mustWait(name)
}

// acts tells the settings that say as whom the session acts.
func acts(name string) bool { return name == role || name == sessionAuthorization }

// mustWait names the settings after which nothing may follow before they were
// accepted: run under the old value, a statement would act as another role or
// on other tables.
func mustWait(name string) bool { return acts(name) || name == searchPath || name == "row_security" }
