// Package upstream carries a [proxy.Request] to one node, over HTTP/1.1
// ([HTTP]), as length-prefixed messages over TCP ([Framed]) or inside the
// process ([NewBuiltin]), and says exactly what became of it.
package upstream
