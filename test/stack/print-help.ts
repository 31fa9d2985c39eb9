// `npm run help` prints the commands of users, and `npm run dev:help` those of developers.

export const userHelp = `npm start                       the whole service on this machine (-- --help: its options)
npm start -- --backend <url>    the same with your own model server, such as http://127.0.0.1:11434/v1
npm run seed                    fills it with accounts, usage and batches
npm run token -- <account>      prints a sign-in token of it (--admin: of an operator)
npm run check-plan -- <file>    checks a plan file (--probe: asks its backends, too)
npm run ingress                 an ingress, with the settings of its environment
npm run worker                  a worker, in the same way
npm run reconcile               compares the counters in Redis with the store, and mends them
npm run memory                  how much memory Redis needs for a load (-- --help)
npm run dev:help                commands for work on the code: tests and measurements`;

export const developerHelp = `npm run dev         npm start with restarts when the source changes
npm test            types, lint and the fast tests; test:slow, test:all and nightly run more
npm run test:one    one test file (-- <file>); test:sized runs random cases at a larger size
npm run typecheck   the types; lint checks the form, and format mends it
npm run faults      breaks one part after another (-- --list)
npm run fuzz        searches for inputs that break what reads them (-- --list)
npm run attack      hostile callers in front of a running service
npm run soak        hours of mixed traffic (-- <minutes>)
npm run mutate      changes code, and runs its tests against each change (-- <file>)
npm run bench       measures this machine (-- <part>)
npm run meter       commands and bytes in Redis for a request
npm run bytes       bytes of each item in Redis and in the store
npm run pictures    pictures of the console for the README (-- --all <folder>)
npm run chart       what the Helm chart makes of its values
npm run release     writes an archive of the commit, its SBOM and its sums
npm run help        commands for use`;

if (import.meta.main) console.log(process.argv[2] === 'dev' ? developerHelp : userHelp);
