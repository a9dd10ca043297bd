CREATE TABLE balances (
    account text PRIMARY KEY,
    cents bigint NOT NULL CHECK (cents <= 100000000),
    movements bigint NOT NULL
);
