package schema

import (
	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/config/values"
)

// Role is what a Postgres role may ask for.
type Role struct {
	Name         string // "*": every role that no other Role has
	MaxClass     admission.Class
	PromoteShare values.Share // of its work, in server-time, that may be above its workload's class
}

// DefaultRole is a role that no section is about, without a name.
func DefaultRole() Role {
	var r Role
	SetDefaults(roleFields(&r), "")
	return r
}

// roleFields are the keys of [role.NAME].
func roleFields(r *Role) []Field {
	return []Field{
		{Key{
			Name: "max_class", Default: `"critical"`,
			Doc: "The highest class of its work, whatever it asks for and whatever its workload says. \"critical_plus\" is never refused to make room, so nobody has it who is not given it here.",
		}, values.Enum(&r.MaxClass, classes())},
		{Key{
			Name: "promote_share", Default: `"30%"`,
			Doc: "How much of its work, in server-time, may be above the class of its workload. What it asks for beyond that is taken as of its workload's class, and counted.",
		}, values.Percent(&r.PromoteShare)},
	}
}
