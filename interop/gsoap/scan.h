// A service that takes a file and gives it back, for MTOM (soapcpp2).

//gsoap scan service name:      Scan
//gsoap scan service style:     document
//gsoap scan service encoding:  literal
//gsoap scan service namespace: urn:depot:scan
//gsoap scan schema namespace:  urn:depot:scan

#import "xop.h"
#import "xmime5.h"

struct scan__File
{	struct _xop__Include xop__Include; // the octets, in a part of their own
	@char *xmime5__contentType;
};

int scan__Keep(struct scan__File *file, struct scan__KeepResponse { struct scan__File *file; } *out);
