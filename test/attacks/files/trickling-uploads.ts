import { boundary, contentType } from '../../support/multipart.ts';
import { head } from '../../support/refusal.ts';
import type { Attack } from '../attack.ts';
import { trickle } from '../attacker/trickle.ts';

const beginning = [
  ...[`--${boundary}`, 'Content-Disposition: form-data; name="purpose"', '', 'batch'],
  ...[`--${boundary}`, 'Content-Disposition: form-data; name="file"; filename="in.jsonl"', '', '{"custom_id":"a"'],
].join('\r\n');

export const tricklingUploads: Attack = {
  id: '8',
  name: 'trickling-uploads',
  does: 'uploads of a byte a second by 8 accounts, each with the maximum of concurrent uploads',
  accounts: 8,
  forMs: 25_000,
  others: 'uploads',
  run: (attacker) =>
    trickle(attacker, {
      connections: 32,
      begin: (client) =>
        head(
          'POST /v1/files HTTP/1.1',
          `Authorization: Bearer ${attacker.target.keys[client % attacker.target.keys.length]}`,
          contentType(),
          'Content-Length: 1000000',
        ) + beginning,
      piece: ' ',
    }),
};
