-- The inbox: which messages have had their effect. A row is made in the transaction that makes the effect.
CREATE TABLE inbox (message_id text PRIMARY KEY, arrived_at timestamptz NOT NULL DEFAULT now());

-- Accounts remember the highest fencing token that has written to them.
CREATE TABLE account (id integer PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, token bigint NOT NULL DEFAULT 0);

-- The effect. On purpose without a unique key, so that a payment that was booked twice would be seen.
CREATE TABLE booking (payment integer NOT NULL, account integer NOT NULL, amount bigint NOT NULL);
