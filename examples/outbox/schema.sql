-- The shop's own tables. Those of the outbox and the inbox come from: tally relay schema --type postgres
CREATE TABLE orders (customer integer NOT NULL, number integer NOT NULL, PRIMARY KEY (customer, number));

-- The effect. On purpose without a unique key, so that an order that was shipped twice would be seen.
CREATE TABLE shipment (id bigserial PRIMARY KEY, customer integer NOT NULL, number integer NOT NULL);
