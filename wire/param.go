package wire

// Param is a name with its value, as a start-up packet, an options string or a
// ParameterStatus has them. Neither contains a zero byte.
type Param struct{ Name, Value string }
