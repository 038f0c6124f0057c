# tries: unpack an archive over files outside
# stopped: the file system outside the workspace is mounted read-only
# control: yes
# bare bwrap stops it: yes
python3 -c "import tarfile, io; t = tarfile.open(\"a.tar\", \"w\"); i = tarfile.TarInfo(\"../outside/f\"); i.size = 1; t.addfile(i, io.BytesIO(b\"x\"))" && tar -xPf a.tar
