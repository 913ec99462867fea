module soapway/internal/xmlversus

go 1.26.0

replace soapway => ../..

require (
	github.com/orisano/gosax v1.1.4
	soapway v0.0.0-00010101000000-000000000000
)

require (
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
)
