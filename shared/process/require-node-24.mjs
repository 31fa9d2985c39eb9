// Plain JavaScript, so that any Node can run it and print this message instead of failing on the first type annotation.
const major = Number(process.versions.node.split('.')[0]);
if (major !== 24) {
  const isInstalled = ['linux-x64', 'linux-arm64', 'win32-x64'].includes(`${process.platform}-${process.arch}`);
  const advice = isInstalled
    ? '`npm ci` installs the right one (not with --omit=optional): start it with `npm start`, or with node_modules/.bin/node.'
    : 'Install it and put it first on the path: npm has no package of it for this machine.';
  console.error(`This project runs on Node 24, and this is Node ${process.versions.node}. ${advice}`);
  process.exit(1);
}
