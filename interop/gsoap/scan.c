/* Files in parts of their own (MTOM) on gSOAP: a server that gives back what it
 * gets, and a client that prints one JSON line. soapcpp2 makes the rest from scan.h.
 * Run: scan serve PORT | scan call URL 11|12 OCTETS */

#include "soapH.h"
#include "Scan.nsmap"

int scan__Keep(struct soap *soap, struct scan__File *file, struct scan__KeepResponse *out)
{
	if (!soap->mime.list && file->xop__Include.__size > 0 && !file->xop__Include.id)
		return soap_sender_fault(soap, "the file came inside the envelope", NULL);
	file->xop__Include.id = "cid:copy+1%40scan.test";
	out->file = file;
	return SOAP_OK;
}

static int serve(int port)
{
	struct soap *soap = soap_new2(SOAP_ENC_MTOM, SOAP_ENC_MTOM);

	soap->bind_flags = SO_REUSEADDR;
	if (!soap_valid_socket(soap_bind(soap, "127.0.0.1", port, 16)))
		return 1;
	for (;;) {
		if (!soap_valid_socket(soap_accept(soap)))
			return 1;
		soap_serve(soap);
		soap_destroy(soap);
		soap_end(soap);
	}
}

static int call(const char *url, const char *version, int octets)
{
	struct soap *soap = soap_new2(SOAP_ENC_MTOM, SOAP_ENC_MTOM);
	struct scan__File file;
	struct scan__KeepResponse out;
	unsigned char *data = malloc(octets + 1);
	unsigned long x = 42;

	memset(&file, 0, sizeof file);
	memset(&out, 0, sizeof out);
	for (int i = 0; i < octets; i++) {
		x = x * 6364136223846793005UL + 1442695040888963407UL;
		data[i] = x >> 56;
	}
	memcpy(data + octets / 2, "\r\n--==", 6); /* how its own boundaries begin */
	file.xop__Include.__ptr = data;
	file.xop__Include.__size = octets;
	file.xop__Include.type = "image/x-scan";
	file.xmime5__contentType = "image/x-scan";
	soap_set_version(soap, version[1] == '2' ? 2 : 1);
	if (soap_call_scan__Keep(soap, url, "urn:depot:scan#Keep", &file, &out)) {
		soap_print_fault(soap, stderr);
		return 1;
	}
	printf("{\"op\":\"keep\",\"octets\":%d,\"same\":%s,\"id\":\"%s\"}\n", out.file->xop__Include.__size,
		out.file->xop__Include.__size == octets && !memcmp(out.file->xop__Include.__ptr, data, octets) ? "true" : "false",
		out.file->xop__Include.id ? out.file->xop__Include.id : "");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(atoi(argv[2]));
	if (argc == 5 && !strcmp(argv[1], "call"))
		return call(argv[2], argv[3], atoi(argv[4]));
	return 2;
}
