/** The attic: header blocks, one-way messages, declared faults and attachments. */
@XmlSchema(namespace = "urn:example:attic", elementFormDefault = XmlNsForm.QUALIFIED)
package attic;

import jakarta.xml.bind.annotation.XmlNsForm;
import jakarta.xml.bind.annotation.XmlSchema;
