/* The depot on gSOAP: a server that answers SOAP 1.1 and 1.2, and a client that
 * prints one JSON line for each operation. soapcpp2 makes the rest from the WSDL.
 * Run: depot serve PORT WSDL | depot call URL 11|12 OPERATION... */

#include "soapH.h"
#include "Depot11.nsmap"

#define TEXT "h\xc3\xa9llo <&> ]]> \xe6\xb5\x8b\xe8\xaf\x95"
enum { BULK = 40000 };

static const char *wsdl_path;

/* ---- server ---- */

int __depot__Quote(struct soap *soap, struct _depot__Quote *in, struct _depot__QuoteResponse *out)
{
	(void)soap;
	out->cents = in->grams * in->zone;
	return SOAP_OK;
}

int __depot__Label(struct soap *soap, struct _depot__Label *in, struct _depot__LabelResponse *out)
{
	(void)soap;
	out->text = in->text;
	return SOAP_OK;
}

int __depot__Locate(struct soap *soap, struct _depot__Locate *in, struct _depot__LocateResponse *out)
{
	static const char looked[] = "looked at ";

	if (in->hint == NULL)
		return SOAP_OK; /* shelf stays NULL and is sent as nil */
	out->shelf = soap_malloc(soap, sizeof *out->shelf);
	*out->shelf = 7;
	out->note = soap_malloc(soap, sizeof looked + strlen(in->hint));
	strcat(strcpy(out->note, looked), in->hint);
	return SOAP_OK;
}

int __depot__Refuse(struct soap *soap, struct _depot__Refuse *in, struct _depot__RefuseResponse *out)
{
	static const char refused[] = "refused & returned: ";
	char *reason = soap_malloc(soap, sizeof refused + strlen(in->parcel));
	struct SOAP_ENV__Detail *detail = soap_new_SOAP_ENV__Detail(soap, 1);

	(void)out;
	strcat(strcpy(reason, refused), in->parcel);
	detail->depot__ParcelRefused = soap_new__depot__ParcelRefused(soap, 1);
	detail->depot__ParcelRefused->reason = "zone <9> is closed";
	soap_sender_fault(soap, reason, NULL);
	if (soap->version == 2)
		soap->fault->SOAP_ENV__Detail = detail;
	else
		soap->fault->detail = detail;
	return SOAP_FAULT;
}

/* The second binding of the WSDL has the same operations under names of its own. */
int __depot__Quote_(struct soap *soap, struct _depot__Quote *in, struct _depot__QuoteResponse *out)
{
	return __depot__Quote(soap, in, out);
}

int __depot__Label_(struct soap *soap, struct _depot__Label *in, struct _depot__LabelResponse *out)
{
	return __depot__Label(soap, in, out);
}

int __depot__Locate_(struct soap *soap, struct _depot__Locate *in, struct _depot__LocateResponse *out)
{
	return __depot__Locate(soap, in, out);
}

int __depot__Refuse_(struct soap *soap, struct _depot__Refuse *in, struct _depot__RefuseResponse *out)
{
	return __depot__Refuse(soap, in, out);
}

/* answer_get serves the WSDL to GET /…?wsdl. */
static int answer_get(struct soap *soap)
{
	const char *query = strchr(soap->path, '?');
	FILE *file;
	char buf[4096];
	size_t n;

	if (query == NULL || soap_tag_cmp(query, "?wsdl") != 0)
		return SOAP_GET_METHOD;
	if ((file = fopen(wsdl_path, "rb")) == NULL)
		return 404;
	soap->http_content = "text/xml; charset=utf-8";
	soap_response(soap, SOAP_FILE);
	while ((n = fread(buf, 1, sizeof buf, file)) > 0)
		if (soap_send_raw(soap, buf, n))
			break;
	fclose(file);
	return soap_end_send(soap);
}

static int serve(struct soap *soap, int port)
{
	soap->bind_flags = SO_REUSEADDR;
	soap->fget = answer_get;
	soap->send_timeout = soap->recv_timeout = 30;
	if (!soap_valid_socket(soap_bind(soap, "127.0.0.1", port, 100))) {
		soap_print_fault(soap, stderr);
		return 1;
	}
	for (;;) {
		if (soap_valid_socket(soap_accept(soap)))
			soap_serve(soap);
		soap_destroy(soap);
		soap_end(soap);
	}
}

/* ---- client ---- */

/* print_json prints a string as JSON; octets above 0x7f are UTF-8 and stay as they are. */
static void print_json(const char *s)
{
	putchar('"');
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			printf("\\u%04x", *s);
		else
			putchar(*s);
	}
	putchar('"');
}

/* print_text prints the text of a piece of XML without its tags; its references are the five built-in names. */
static void print_text(struct soap *soap, const char *xml)
{
	static const struct { const char *name; char is; } refs[] = {
		{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''},
	};
	char *text = soap_malloc(soap, strlen(xml) + 1), *end = text;
	size_t i;

	while (*xml != '\0') {
		if (*xml == '<') {
			xml += strcspn(xml, ">");
			xml += *xml == '>';
			continue;
		}
		for (i = 0; i < sizeof refs / sizeof *refs; i++)
			if (strncmp(xml, refs[i].name, strlen(refs[i].name)) == 0)
				break;
		if (i < sizeof refs / sizeof *refs) {
			*end++ = refs[i].is;
			xml += strlen(refs[i].name);
		} else {
			*end++ = *xml++;
		}
	}
	*end = '\0';
	print_json(text);
}

static void print_detail(struct soap *soap)
{
	struct SOAP_ENV__Detail *detail = soap->version == 2 ? soap->fault->SOAP_ENV__Detail : soap->fault->detail;

	if (detail != NULL && detail->depot__ParcelRefused != NULL)
		print_json(detail->depot__ParcelRefused->reason);
	else
		print_text(soap, detail != NULL && detail->__any != NULL ? detail->__any : "");
}

/* print_fault prints a fault that came as one; any other error ends the program. */
static void print_fault(struct soap *soap)
{
	const char *code, *colon;

	if (soap->error != SOAP_FAULT && soap->error != SOAP_CLI_FAULT && soap->error != SOAP_SVR_FAULT) {
		soap_print_fault(soap, stderr);
		exit(1);
	}
	code = *soap_faultcode(soap);
	colon = strrchr(code, ':');
	printf("\"exception\":\"SOAP_FAULT\",\"code\":");
	print_json(colon != NULL ? colon + 1 : code);
	printf(",\"message\":");
	print_json(*soap_faultstring(soap));
	printf(",\"detail\":");
	print_detail(soap);
}

static void quote(struct soap *soap, const char *url, int v12)
{
	struct _depot__Quote in = {.grams = 6, .zone = 7};
	struct _depot__QuoteResponse out;

	if ((v12 ? soap_call___depot__Quote_ : soap_call___depot__Quote)(soap, url, NULL, &in, &out))
		print_fault(soap);
	else
		printf("\"cents\":%d", out.cents);
}

static void label(struct soap *soap, const char *url, int v12)
{
	struct _depot__Label in = {.text = TEXT};
	struct _depot__LabelResponse out;

	if ((v12 ? soap_call___depot__Label_ : soap_call___depot__Label)(soap, url, NULL, &in, &out)) {
		print_fault(soap);
		return;
	}
	printf("\"text\":");
	print_json(out.text);
}

static void bulk(struct soap *soap, const char *url, int v12)
{
	struct _depot__Label in;
	struct _depot__LabelResponse out;
	size_t i, n = sizeof TEXT - 1;

	in.text = soap_malloc(soap, BULK * n + 1);
	for (i = 0; i < BULK; i++)
		memcpy(in.text + i * n, TEXT, n);
	in.text[BULK * n] = '\0';
	if ((v12 ? soap_call___depot__Label_ : soap_call___depot__Label)(soap, url, NULL, &in, &out))
		print_fault(soap);
	else
		printf("\"octets\":%zu,\"same\":%s", strlen(out.text), strcmp(in.text, out.text) == 0 ? "true" : "false");
}

static void locate(struct soap *soap, const char *url, int v12, struct _depot__Locate in)
{
	struct _depot__LocateResponse out;

	if ((v12 ? soap_call___depot__Locate_ : soap_call___depot__Locate)(soap, url, NULL, &in, &out)) {
		print_fault(soap);
		return;
	}
	if (out.shelf != NULL)
		printf("\"shelf\":%d", *out.shelf);
	else
		printf("\"shelf\":null");
	if (out.note != NULL) {
		printf(",\"note\":");
		print_json(out.note);
	}
}

static void refuse(struct soap *soap, const char *url, int v12)
{
	struct _depot__Refuse in = {.parcel = TEXT};
	struct _depot__RefuseResponse out;

	if ((v12 ? soap_call___depot__Refuse_ : soap_call___depot__Refuse)(soap, url, NULL, &in, &out))
		print_fault(soap);
	else
		printf("\"refused\":null");
}

/* speak makes the client send one SOAP version. The generated table of namespaces means 1.2, and
 * soap_set_version does not outlive the start of a call, so 1.1 needs a table of its own. */
static void speak(struct soap *soap, int v12)
{
	static struct Namespace table11[sizeof namespaces / sizeof *namespaces];

	if (v12)
		return;
	memcpy(table11, namespaces, sizeof namespaces);
	table11[0].ns = namespaces[0].in;
	table11[0].in = namespaces[0].ns;
	table11[1].ns = namespaces[1].in;
	table11[1].in = namespaces[1].ns;
	soap_set_namespaces(soap, table11);
}

static int call(struct soap *soap, const char *url, int v12, char **names)
{
	speak(soap, v12);
	soap->connect_timeout = soap->send_timeout = soap->recv_timeout = 30;
	for (; *names != NULL; names++) {
		printf("{\"op\":\"%s\",", *names);
		if (strcmp(*names, "quote") == 0)
			quote(soap, url, v12);
		else if (strcmp(*names, "label") == 0)
			label(soap, url, v12);
		else if (strcmp(*names, "bulk") == 0)
			bulk(soap, url, v12);
		else if (strcmp(*names, "locate") == 0)
			locate(soap, url, v12, (struct _depot__Locate){.parcel = "P-1", .hint = "top"});
		else if (strcmp(*names, "locate-nil") == 0)
			locate(soap, url, v12, (struct _depot__Locate){.parcel = "P-2"});
		else if (strcmp(*names, "refuse") == 0)
			refuse(soap, url, v12);
		else
			return 2;
		printf("}\n");
		soap_destroy(soap);
		soap_end(soap);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct soap *soap = soap_new1(SOAP_C_UTFSTRING);

	if (argc == 4 && strcmp(argv[1], "serve") == 0) {
		wsdl_path = argv[3];
		return serve(soap, atoi(argv[2]));
	}
	if (argc >= 4 && strcmp(argv[1], "call") == 0)
		return call(soap, argv[2], strcmp(argv[3], "12") == 0, argv + 4);
	fprintf(stderr, "usage: depot serve PORT WSDL | depot call URL 11|12 OPERATION...\n");
	return 2;
}
