package relay

import (
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/sqltext"
)

// A server may refuse what another one has accepted: a role was dropped, a right was taken.
// The client is told at every request, and nothing of it is run: as another role, or on other
// tables, it could do harm. What it can do is to set anew, or back, what is refused: a command
// that does so, alone, is run without the setting that it is about.

// unsettled is what the client is told.
func unsettled(why *wire.Error) *wire.Error {
	return &wire.Error{
		Severity: "ERROR", Code: wire.CodeInvalidParameterValue,
		Message: "pgweir: the settings of this session are refused: " + why.Message,
		Detail:  "reason=settings_refused",
		Hint:    "retry=no; SET or RESET what is refused, or DISCARD ALL",
	}
}

// loneSetting returns the setting that a command is about: resetAll for all, discardAll for
// more than that; "" = it is no such command.
func loneSetting(k sqltext.Kind, text []byte) string {
	switch k {
	case sqltext.Discard:
		return discardAll
	case sqltext.Set, sqltext.Reset:
		return sqltext.Classify(text).Name(text)
	}
	return ""
}

// discardAll is no setting: DISCARD ALL sets back also what RESET ALL does not.
const discardAll = "discard"

// spared returns the settings that a server must have before such a command.
func (c *Client) spared() *Params {
	name := c.lone
	c.lone = ""
	switch name {
	case discardAll:
		return NoParams()
	case resetAll:
		return NoParams().as(c.want)
	case sessionAuthorization:
		return c.want.with(name, "", true).with(role, "", true)
	}
	return c.want.with(name, "", true)
}
