// Plain JavaScript, so that any Node can run it and print this message instead of failing on the first type annotation.
const major = Number(process.versions.node.split('.')[0]);
if (major !== 24) {
  console.error(
    `This project runs on Node 24, and this is Node ${process.versions.node}. ` +
      '`npm ci` installs the right one (not with --omit=optional): start it with `npm start`, or with node_modules/.bin/node.',
  );
  process.exit(1);
}
