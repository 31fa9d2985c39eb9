import { findRedis } from '../stack/redis-server.ts';
import { isMeant } from '../support/faults/declared-faults.ts';
import { allAttacks } from './all-attacks.ts';
import { describeResult, summary } from './describe-result.ts';
import { exitCodeOf, residentMiBMax, slowdownMax } from './judge.ts';
import { type Result, runAttack } from './run-attack.ts';

const help = `npm run attack                       every attack, each on a new stack: about 20 minutes
npm run attack -- 3 6a idle-connections only attacks with these numbers or names, or beginnings of names such as hold
npm run attack -- --list             lists the attacks

Legitimate callers ask from 127.0.0.1. The attacker is a separate process at 127.0.0.2, so this needs Linux. It has a lower priority
than the service, and its rate is limited to what one machine can send through an ordinary line: see each attack. Ingress and worker
have the heap and the allocator settings of containers of 512 MiB. Reports for each attack what the attacker got, and, before, during
and after it, how long callers waited and what each process needed. Exits with 1 if
- the median wait of callers (of hold-…: the 99th percentile) was more than ${slowdownMax} times as long during an attack,
- a process had more than ${residentMiBMax} MiB,
- an answer was lost, wrong, or not settled exactly once,
- a caller was refused, or the attacker got more than permitted.`;

const args = process.argv.slice(2);
const options = args.filter((arg) => arg.startsWith('--'));
const chosen = args.filter((arg) => !arg.startsWith('--'));
const isChosen = (arg: string) => (attack: { id: string; name: string }) =>
  isMeant(attack.id, arg) || attack.name === arg || attack.name.startsWith(`${arg}-`);
const wanted = allAttacks.filter((attack) => chosen.length === 0 || chosen.some((arg) => isChosen(arg)(attack)));
const unknown = [
  ...options.filter((option) => !['--help', '--list'].includes(option)),
  ...chosen.filter((arg) => !allAttacks.some(isChosen(arg))),
];

if (unknown.length > 0) {
  console.error(`There is no ${unknown.join(', ')}.\n\n${help}`);
  process.exitCode = 2;
} else if (options.includes('--help')) {
  console.log(help);
} else if (options.includes('--list')) {
  for (const { id, name, does } of wanted) console.log(`${id.padEnd(4)} ${name}: ${does}`);
} else {
  await findRedis();
  const results: Pick<Result, 'attack' | 'exceeded'>[] = [];
  for (const [index, attack] of wanted.entries()) {
    console.log(`\n[${index + 1}/${wanted.length}] ${attack.id} ${attack.name} …`);
    try {
      const result = await runAttack(attack);
      results.push(result);
      console.log(describeResult(result));
    } catch (error) {
      console.error(error);
      results.push({ attack, exceeded: ['it did not finish'] });
    }
  }
  console.log(`\n${summary(results)}`);
  process.exitCode = exitCodeOf(results);
}
