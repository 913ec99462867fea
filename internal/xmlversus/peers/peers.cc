// The contenders in C and C++, for the driver (../doc.go): libxml2's SAX2, expat with
// namespaces, pugixml. It speaks what ../serve.go describes, and counts alike.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <expat.h>
#include <functional>
#include <iostream>
#include <libxml/SAX2.h>
#include <libxml/parser.h>
#include <map>
#include <memory>
#include <pugixml.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

struct Tally {
  uint64_t starts = 0, ends = 0, attrs = 0, names = 0, values = 0, text = 0, spaced = 0;
  void see(const char *local, bool in_space) {
    names += static_cast<unsigned char>(local[0]);
    spaced += in_space;
  }
};

// What a contender does with one document.
using Parse = std::function<void(const std::string &, Tally &)>;

// expat gives "namespace|local", or "local" alone.
const char separator = '|';

static void expat_see(Tally &t, const char *name) {
  const char *bar = strchr(name, separator);
  t.see(bar ? bar + 1 : name, bar != nullptr);
}

static void XMLCALL expat_start(void *data, const XML_Char *name, const XML_Char **attrs) {
  Tally &t = *static_cast<Tally *>(data);
  t.starts++;
  expat_see(t, name);
  for (; *attrs; attrs += 2) {
    t.attrs++;
    expat_see(t, attrs[0]);
    t.values += strlen(attrs[1]);
  }
}

static void XMLCALL expat_end(void *data, const XML_Char *) { static_cast<Tally *>(data)->ends++; }

static void XMLCALL expat_text(void *data, const XML_Char *, int length) {
  static_cast<Tally *>(data)->text += length;
}

static Parse expat() {
  XML_Parser parser = XML_ParserCreateNS(nullptr, separator); // kept, and reset for each document
  return [parser](const std::string &doc, Tally &t) {
    XML_ParserReset(parser, nullptr);
    XML_SetElementHandler(parser, expat_start, expat_end);
    XML_SetCharacterDataHandler(parser, expat_text);
    XML_SetUserData(parser, &t);
    if (XML_Parse(parser, doc.data(), static_cast<int>(doc.size()), 1) != XML_STATUS_OK)
      throw std::runtime_error(XML_ErrorString(XML_GetErrorCode(parser)));
  };
}

static void libxml_start(void *data, const xmlChar *local, const xmlChar *, const xmlChar *uri, int, const xmlChar **, int count,
                         int, const xmlChar **attrs) {
  Tally &t = *static_cast<Tally *>(data);
  t.starts++;
  t.see(reinterpret_cast<const char *>(local), uri != nullptr);
  for (int i = 0; i < count; i++, attrs += 5) { // local, prefix, namespace, value, end of value
    t.attrs++;
    t.see(reinterpret_cast<const char *>(attrs[0]), attrs[2] != nullptr);
    t.values += attrs[4] - attrs[3];
  }
}

static void libxml_end(void *data, const xmlChar *, const xmlChar *, const xmlChar *) { static_cast<Tally *>(data)->ends++; }

static void libxml_text(void *data, const xmlChar *, int length) { static_cast<Tally *>(data)->text += length; }

static xmlEntityPtr libxml_entity(void *, const xmlChar *name) { return xmlGetPredefinedEntity(name); }

static xmlSAXHandler *libxml_handler() {
  static xmlSAXHandler h;
  h.initialized = XML_SAX2_MAGIC;
  h.startElementNs = libxml_start;
  h.endElementNs = libxml_end;
  h.characters = h.ignorableWhitespace = h.cdataBlock = libxml_text;
  h.getEntity = libxml_entity;
  return &h;
}

// A context for each document, which is how libxml2 reads from memory.
static Parse libxml_memory() {
  return [](const std::string &doc, Tally &t) {
    if (xmlSAXUserParseMemory(libxml_handler(), &t, doc.data(), static_cast<int>(doc.size())) != 0)
      throw std::runtime_error("libxml2 refuses the document");
  };
}

// One context that is kept, which only the push parser allows.
static Parse libxml_push() {
  auto target = std::make_shared<Tally>(); // a context keeps the address it was made with
  xmlParserCtxtPtr context = xmlCreatePushParserCtxt(libxml_handler(), target.get(), nullptr, 0, nullptr);
  return [context, target](const std::string &doc, Tally &t) {
    *target = Tally();
    if (xmlCtxtResetPush(context, nullptr, 0, nullptr, nullptr) != 0 ||
        xmlParseChunk(context, doc.data(), static_cast<int>(doc.size()), 1) != 0)
      throw std::runtime_error("libxml2 refuses the document");
    t.starts += target->starts, t.ends += target->ends, t.attrs += target->attrs, t.names += target->names;
    t.values += target->values, t.text += target->text, t.spaced += target->spaced;
  };
}

static const char *local_part(const char *name) {
  const char *colon = strchr(name, ':');
  return colon ? colon + 1 : name;
}

static void walk(const pugi::xml_node &parent, Tally &t) {
  for (pugi::xml_node n = parent.first_child(); n; n = n.next_sibling()) {
    if (n.type() != pugi::node_element) {
      t.text += strlen(n.value());
      continue;
    }
    t.starts++, t.ends++;
    t.see(local_part(n.name()), false);
    for (pugi::xml_attribute a = n.first_attribute(); a; a = a.next_attribute()) {
      if (strncmp(a.name(), "xmlns", 5) == 0)
        continue;
      t.attrs++;
      t.see(local_part(a.name()), false);
      t.values += strlen(a.value());
    }
    walk(n, t);
  }
}

// A tree, with the white space that the others report too; it knows no namespaces.
static Parse pugixml() {
  auto tree = std::make_shared<pugi::xml_document>();
  return [tree](const std::string &doc, Tally &t) {
    auto result = tree->load_buffer(doc.data(), doc.size(), pugi::parse_default | pugi::parse_ws_pcdata, pugi::encoding_utf8);
    if (!result)
      throw std::runtime_error(result.description());
    walk(*tree, t);
  };
}

static int64_t cpu_nanos() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

using Docs = std::map<std::string, std::vector<std::string>>;

static std::string obey(const std::string &line, Docs &docs, std::map<std::string, Parse> &parsers) {
  std::istringstream words(line);
  std::string command, contender, family;
  words >> command >> contender;
  if (command == "doc") {
    size_t length;
    words >> length;
    std::string doc(length, '\0');
    std::cin.read(&doc[0], static_cast<std::streamsize>(length));
    docs[contender].push_back(doc);
    return "ok";
  }
  size_t passes = 0;
  words >> family >> passes;
  auto parser = parsers.find(contender);
  auto variants = docs.find(family);
  if (command != "run" || parser == parsers.end() || variants == docs.end())
    throw std::runtime_error("no such command, contender or document: " + line);
  Tally t;
  const int64_t from = cpu_nanos();
  for (size_t i = 0; i < passes; i++)
    parser->second(variants->second[i % variants->second.size()], t);
  const int64_t took = cpu_nanos() - from;
  std::ostringstream out;
  out << took << ' ' << t.starts << ' ' << t.ends << ' ' << t.attrs << ' ' << t.names << ' ' << t.values << ' ' << t.text << ' '
      << t.spaced;
  return out.str();
}

int main() {
  xmlInitParser();
  std::map<std::string, Parse> parsers{
      {"expat", expat()}, {"libxml2", libxml_memory()}, {"libxml2-push", libxml_push()}, {"pugixml", pugixml()}};
  Docs docs;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << obey(line, docs, parsers) << std::endl;
    } catch (const std::exception &e) {
      std::cout << "error: " << e.what() << std::endl;
    }
  }
}
