// Sends each payment twice, lets workers book them while some are killed and frozen, and counts what is in the
// database.
import { readFileSync } from "node:fs";
import pg from "pg";
import { countMessages, createQueue, sendAll, sleep, waitUntil, Workers } from "../common/tally.mjs";

const ACCOUNTS = 10;
const PAYMENTS = 300;

const db = new pg.Client();
await db.connect();
await db.query(readFileSync(new URL("schema.sql", import.meta.url), "utf8"));
await db.query("INSERT INTO account (id) SELECT generate_series(1, $1)", [ACCOUNTS]);

// FIFO: one worker at a time holds an account, so a fencing token that is lower than the account's is a late one.
const queue = await createQueue("payments.fifo", { "Tally.DeduplicationWindow": "-1" });
const messages = Array.from({ length: PAYMENTS }, (_, payment) => ({
  MessageBody: JSON.stringify({ payment, account: 1 + (payment % ACCOUNTS), amount: 1 + (payment % 7) }),
  MessageGroupId: `account-${1 + (payment % ACCOUNTS)}`,
  MessageDeduplicationId: `payment-${payment}`,
}));

const first = await sendAll(queue, messages);
const workers = new Workers(new URL("worker.mjs", import.meta.url), 5, [queue]);
const second = await sendAll(queue, messages); // as a sender does whose reply was lost
const isSame = second.every(({ MessageId }, index) => MessageId === first[index].MessageId);
console.log(
  `${PAYMENTS} payments were sent, and sent again: the same message ids ${isSame ? "came back" : "did NOT come back"}.`,
);

for (let i = 0; i < 4; i++) {
  await sleep(400);
  workers.kill();
  await workers.freeze(3000); // its messages are hidden for 2 s: others get them, and then it goes on
}
await waitUntil(async () => (await countMessages(queue)) === 0, "the last payment");
const third = await sendAll(queue, messages); // long after: the window is for ever
const isKnown = third.every(({ MessageId }, index) => MessageId === first[index].MessageId);
const left = await countMessages(queue);
workers.stop();

const {
  rows: [booked],
} = await db.query(`
  SELECT count(*)::int AS bookings, count(DISTINCT payment)::int AS payments, sum(amount)::int AS amount,
         (SELECT sum(balance)::int FROM account) AS balance, (SELECT count(*)::int FROM inbox) AS inbox FROM booking`);
await db.end();
const amount = messages.reduce((sum, { MessageBody }) => sum + JSON.parse(MessageBody).amount, 0);
const { killed, frozen, died = 0, duplicate = 0, fenced = 0 } = workers.counts;
const isAllKnown = isKnown && left === 0;
const thirdTime = isAllKnown ? "every one was known, and no message came of it" : "NOT all were known";

console.log(`
${killed + died} workers were killed, ${died} of them between COMMIT and DeleteMessage.
${frozen} were frozen for longer than their lease.
${duplicate} deliveries found their message in the inbox: the effect had happened, so they changed nothing.
${fenced} writes came too late and were refused by the account's fencing token.
Sent a third time after the end: ${thirdTime}.

in the database   ${booked.payments} payments, ${booked.bookings} bookings, ${booked.inbox} messages in the inbox
                  ${booked.amount} booked, ${booked.balance} on the accounts
as it should be   ${PAYMENTS} payments, ${PAYMENTS} bookings, ${PAYMENTS} messages in the inbox
                  ${amount} booked, ${amount} on the accounts`);
const isGood =
  isSame &&
  isAllKnown &&
  booked.payments === PAYMENTS &&
  booked.bookings === PAYMENTS &&
  booked.inbox === PAYMENTS &&
  booked.amount === amount &&
  booked.balance === amount;
console.log(isGood ? "\nEach payment once." : "\nThat is WRONG.");
process.exit(isGood ? 0 : 1);
