"""Which file system a path is on, and its one spelling; what of a Hadoop configuration says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparktf.errors import ConfigError
from sparktf.hadoop import HadoopConf, NameNode
from sparktf.storage.base import FileEntry
from sparktf.storage.credentials import SimpleCredentials
from sparktf.storage.file_systems import FileSystems
from sparktf.storage.hdfs.hdfs import HdfsStorage
from sparktf.storage.local import LocalStorage

HA = {
    "fs.defaultFS": "hdfs://lake",
    "dfs.nameservices": "lake, other",
    "dfs.ha.namenodes.lake": "a,b",
    "dfs.namenode.rpc-address.lake.a": "nn1:8020",
    "dfs.namenode.rpc-address.lake.b": "nn2:9000",
    "dfs.namenode.http-address.lake.b": "nn2:50070",
    "dfs.namenode.https-address.lake.a": "nn1:50470",
    "dfs.namenode.rpc-address.other": "nn3:8020",
}


def file_systems(default_fs: str = "hdfs://nn:8020") -> FileSystems:
    return FileSystems(HadoopConf(properties={"fs.defaultFS": default_fs}), SimpleCredentials("alice"))


def site(folder: Path, name: str, **properties: str) -> None:
    body = "".join(
        f"<property><name>{key.replace('_', '.')}</name><value> {value} </value></property>"
        for key, value in properties.items()
    )
    (folder / name).write_text(f"<?xml version='1.0'?><configuration>{body}</configuration>", encoding="utf-8")


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("/lake/x/", "hdfs://nn:8020/lake/x"),
            ("//lake/./a/../x", "hdfs://nn:8020/lake/x"),
            ("runs", "hdfs://nn:8020/user/alice/runs"),
            ("hdfs:///x", "hdfs://nn:8020/x"),
            ("HDFS://nn:8020/x", "hdfs://nn:8020/x"),
            ("hdfs://other/x//y", "hdfs://other/x/y"),
            ("hdfs://nn:8020/a#b?c%25", "hdfs://nn:8020/a#b?c%25"),
            ("webhdfs://gate:14000/x/", "webhdfs://gate:14000/x"),
            ("file:/x/", "file:///x"),
            ("/", "hdfs://nn:8020"),
        ],
    )
    def test_a_path_has_one_spelling_that_stays(self, path: str, expected: str) -> None:
        assert file_systems().normalise(path) == expected
        assert file_systems().normalise(expected) == expected

    @pytest.mark.parametrize(
        ("path", "kind"),
        [
            ("/x", HdfsStorage),
            ("hdfs://elsewhere/x", HdfsStorage),
            ("swebhdfs://gate/x", HdfsStorage),
            ("file:///x", LocalStorage),
        ],
    )
    def test_a_path_leads_to_its_storage(self, path: str, kind: type[object]) -> None:
        assert isinstance(file_systems().open(path), kind)

    def test_a_cluster_has_one_storage(self) -> None:
        systems = file_systems()
        assert systems.open("/a") is systems.open("hdfs://nn:8020/b")
        assert systems.open("/a") is not systems.open("hdfs://other:8020/a")

    def test_a_cluster_must_be_named_where_the_default_is_another(self) -> None:
        with pytest.raises(ConfigError, match=r"hdfs:///x names no cluster, and fs.defaultFS is file:///"):
            FileSystems().open("hdfs:///x")

    def test_without_a_configuration_a_path_is_local(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert FileSystems().normalise("x") == f"{tmp_path}/x"
        assert FileSystems().normalise("file:///x") == "/x"

    def test_beside_hdfs_local_entries_keep_their_scheme(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(b"1")
        systems = file_systems()
        found = systems.open(f"file://{tmp_path}").list(f"file://{tmp_path}")
        assert found == (FileEntry(f"file://{tmp_path}/x", 1, False, found[0].modified_ms),)
        assert systems.open(found[0].path).read_bytes(found[0].path) == b"1"

    def test_a_default_that_there_is_no_storage_for_is_named(self) -> None:
        with pytest.raises(ConfigError, match=r"^cosn://c/x: cosn:// is not supported"):
            file_systems("cosn://c").open("/x")

    @pytest.mark.parametrize(
        ("path", "instead"),
        [("/.reserved/raw/zone/x", "/zone/x"), ("hdfs://nn//.reserved/./raw/zone/", "/zone"), ("/.reserved/raw", "/")],
    )
    def test_files_are_not_shown_encrypted(self, path: str, instead: str) -> None:
        with pytest.raises(ConfigError, match=rf"^{path}: /.reserved/raw shows encrypted files .*: write {instead}$"):
            file_systems().open(path)
        assert file_systems().normalise("/.reserved/rawdata") == "hdfs://nn:8020/.reserved/rawdata"


TABLE = "fs.viewfs.mounttable.all."
MOUNTS = {
    "fs.defaultFS": "viewfs://all",
    "dfs.nameservices": "lake",
    f"{TABLE}link./data": "hdfs://lake/warehouse/",
    f"{TABLE}link./data/old/years": "hdfs://attic:8020/",
    f"{TABLE}link./user": "hdfs://people/user",
    f"{TABLE}link./scratch": "file:///scratch",
    f"{TABLE}link./bucket": "cosn://bucket/x",
    f"{TABLE}link./turn": "viewfs://all/data",
    f"{TABLE}homedir": "/user/people",
    "fs.viewfs.mounttable.rest.link./a": "hdfs://a/",
    "fs.viewfs.mounttable.rest.linkFallback": "hdfs://rest/all",
    "fs.viewfs.mounttable.one.linkMergeSlash": "hdfs://lake/",
    "fs.viewfs.mounttable.many.linkNfly": "hdfs://a/,hdfs://b/",
    "fs.viewfs.mounttable.default.link./d": "hdfs://d/",
}


class TestViewFs:
    """Paths by a mount table. What Hadoop's own client makes of them: `cluster/test_hdfs_habits.py`."""

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("/data/clicks/", "hdfs://lake/warehouse/clicks"),
            ("viewfs://all/data/new//x", "hdfs://lake/warehouse/new/x"),
            ("viewfs:///data/x", "hdfs://lake/warehouse/x"),
            ("/data/old/years/1999", "hdfs://attic:8020/1999"),
            ("/data/old/years", "hdfs://attic:8020"),
            ("/database/../data/x", "hdfs://lake/warehouse/x"),
            ("runs", "hdfs://people/user/people/alice/runs"),
            ("/scratch/x", "file:///scratch/x"),
            ("viewfs://rest/a/x", "hdfs://a/x"),
            ("viewfs://rest/b/x", "hdfs://rest/all/b/x"),
            ("viewfs://one/x", "hdfs://lake/x"),
            ("viewfs://one", "hdfs://lake"),
        ],
    )
    def test_a_path_is_that_to_which_its_mount_point_leads(self, path: str, expected: str) -> None:
        systems = FileSystems(HadoopConf(properties=MOUNTS), SimpleCredentials("alice"))
        assert systems.normalise(path) == expected

    def test_the_default_table_is_that_of_paths_which_name_none(self) -> None:
        conf = HadoopConf(properties={**MOUNTS, "fs.defaultFS": "hdfs://lake"})
        assert FileSystems(conf).normalise("viewfs:///d/x") == "hdfs://d/x"

    @pytest.mark.parametrize(
        ("path", "reason"),
        [
            ("/", "below it are mount points of viewfs://all, .*: write a path below one of them, as /bucket"),
            ("/data", "below it are mount points of .* as /data/old/years"),
            ("viewfs://rest/", "below it are mount points"),
            ("/tmp/x", "no mount point of viewfs://all has it; there are /bucket, /data, /data/old/years, /scratch, "),
            ("/database/x", "no mount point of viewfs://all has it"),
            ("/turn/x", "its mount point leads to viewfs://all/data/x: write where that really is"),
            ("/data/../user/../.reserved/raw/x", "no mount point"),
            ("viewfs://many/x", r"fs.viewfs.mounttable.many.linkNfly is not supported: write where it .* hdfs://"),
            ("viewfs://none/x", r"has no mount table of viewfs://none \(fs.viewfs.mounttable.none.link....\): write"),
        ],
    )
    def test_a_path_that_leads_nowhere_is_refused_with_what_to_write(self, path: str, reason: str) -> None:
        with pytest.raises(ConfigError, match=rf"^{path}: .*{reason}"):
            FileSystems(HadoopConf(properties=MOUNTS)).open(path)

    def test_a_mount_point_of_a_store_is_refused_by_the_stores_name(self) -> None:
        with pytest.raises(ConfigError, match=r"^cosn://bucket/x/y: cosn:// is not supported"):
            FileSystems(HadoopConf(properties=MOUNTS)).open("/bucket/y")

    def test_a_table_in_a_file_of_its_own_is_named(self) -> None:
        conf = HadoopConf(properties={**MOUNTS, "fs.viewfs.mounttable.path": "hdfs://lake/mounts"})
        with pytest.raises(ConfigError, match=r"^/tmp/x: .*\(fs.viewfs.mounttable.path\), which is not read: write"):
            FileSystems(conf).open("/tmp/x")

    def test_nodes_find_what_the_driver_found(self) -> None:
        nodes = FileSystems(HadoopConf(properties=MOUNTS).for_nodes())
        assert nodes.normalise("/data/x") == "hdfs://lake/warehouse/x"

    def test_where_hadoops_clients_look_into_a_table_for_hdfs_too_the_place_is_told(self) -> None:
        over = "fs.viewfs.mounttable.lake."
        conf = HadoopConf(
            properties={
                "fs.defaultFS": "hdfs://lake",
                "fs.hdfs.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
                f"{over}link./far": "hdfs://other/far",
                f"{over}link./near": "hdfs://lake/near",
            }
        )
        assert FileSystems(conf).normalise("/near/x") == "hdfs://lake/near/x"
        assert FileSystems(conf).normalise("hdfs://other/x") == "hdfs://other/x"
        with pytest.raises(ConfigError, match=r"^/far/x: by fs.hdfs.impl .* is at hdfs://other/far/x: write that"):
            FileSystems(conf).open("/far/x")


class TestHadoopConf:
    def test_files_are_read_and_references_expanded(self, tmp_path: Path) -> None:
        site(
            tmp_path,
            "core-site.xml",
            fs_defaultFS="hdfs://${my.host}:8020",
            my_host="nn",
            a="${no.such} ${b}",
            b="${a}",
        )
        site(tmp_path, "hdfs-site.xml", dfs_replication="2", my_host="master")
        conf = HadoopConf.from_folder(tmp_path)
        assert conf.default_fs == "hdfs://master:8020"
        assert conf.properties["dfs.replication"] == "2"
        assert "${no.such}" in conf.properties["a"]

    def test_a_file_that_is_none_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "core-site.xml").write_text("<configuration>")
        with pytest.raises(ConfigError, match=f"{tmp_path}/core-site.xml cannot be read as a Hadoop configuration"):
            HadoopConf.from_folder(tmp_path)

    def test_without_hadoop_conf_dir_it_is_empty(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
        assert HadoopConf.from_environment() == HadoopConf()
        assert HadoopConf().default_fs == "file:///"

    def test_hadoop_conf_dir_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        site(tmp_path, "core-site.xml", fs_defaultFS="hdfs://nn")
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        assert HadoopConf.from_environment().default_fs == "hdfs://nn"
        settings = {"spark.hadoop.fs.defaultFS": "s3a://b", "spark.hadoop.x": "${y}", "spark.hadoop.y": "z", "y": "w"}
        given = HadoopConf.from_environment(settings)
        assert given.properties == {"fs.defaultFS": "s3a://b", "x": "z", "y": "z"}

    def test_of_a_jvm_the_defaults_are_left_out(self) -> None:
        conf = HadoopConf.from_xml(
            "<configuration>"
            "<property><name>a</name><value>1</value><source>core-default.xml</source></property>"
            "<property><name>b</name><value>2</value><source>core-site.xml</source></property>"
            "<property><name>c</name><value>${a}${b}</value><source>programmatically</source></property>"
            "</configuration>"
        )
        assert conf.properties == {"b": "2", "c": "${a}2"}

    def test_nodes_get_what_leads_to_files_and_no_secret(self) -> None:
        properties = {
            "fs.defaultFS": "hdfs://nn",
            "dfs.ha.namenodes.lake": "a,b",
            "yarn.resourcemanager.hostname": "rm",
            "hadoop.rpc.protection": "privacy",
            "fs.s3a.secret.key": "x",
            "fs.s3a.access.key": "x",
            "fs.azure.account.key.me.blob": "x",
            "dfs.web.authentication.kerberos.keytab": "x",
            "dfs.proxy": "http://user:word@host",
            "dfs.datanode.keystore.password": "x",
        }
        assert set(HadoopConf(properties=properties).for_nodes().properties) == {
            "fs.defaultFS",
            "dfs.ha.namenodes.lake",
            "hadoop.rpc.protection",
        }

    @pytest.mark.parametrize(
        ("said", "umask"),
        [
            ("022", 0o022),
            ("7", 0o007),
            ("0027", 0o027),
            ("u=rwx,g=rwx,o=", 0o007),
            ("a=rx, u=rwx", 0o022),
            ("g+w,u=rwx", 0o057),
            # Hadoop's own client makes a folder of 700 and one of 255 of these.
            ("u=rwx,g=rwx,g-w,o=", 0o077),
            ("a=rx,u+w", 0o522),
        ],
    )
    def test_a_umask_is_said_as_in_hadoop(self, said: str, umask: int) -> None:
        assert HadoopConf(properties={"fs.permissions.umask-mode": said}).umask == umask

    def test_without_a_umask_others_may_read(self) -> None:
        assert HadoopConf().umask == 0o022

    @pytest.mark.parametrize("said", ["", "9", "rwx", "12345", "u=rwt"])
    def test_a_umask_that_is_none_is_named_before_anything_is_written(self, said: str) -> None:
        conf = HadoopConf(properties={"fs.permissions.umask-mode": said})
        with pytest.raises(ConfigError, match=f"^fs.permissions.umask-mode: '{said}' is no umask: write it as 027"):
            FileSystems(conf).open("hdfs://nn/x")


class TestNameNodes:
    def test_of_a_name_service_all_are_found_in_order(self) -> None:
        assert HadoopConf(properties=HA).namenodes("lake") == (
            NameNode("nn1:8020", "http://nn1:9870"),
            NameNode("nn2:9000", "http://nn2:50070"),
        )

    def test_a_name_service_may_have_one(self) -> None:
        assert [node.http for node in HadoopConf(properties=HA).namenodes("lake", "https")] == [
            *("https://nn1:50470", "https://nn2:9871")
        ]
        assert HadoopConf(properties=HA).namenodes("other") == (NameNode("nn3:8020", "http://nn3:9870"),)

    def test_the_policy_chooses_https(self) -> None:
        conf = HadoopConf(properties={**HA, "dfs.http.policy": "HTTPS_ONLY"})
        assert [node.http for node in conf.namenodes("lake")] == ["https://nn1:50470", "https://nn2:9871"]

    def test_an_address_of_a_name_service_has_its_web_address(self) -> None:
        assert HadoopConf(properties=HA).namenodes("nn2:9000") == (NameNode("nn2:9000", "http://nn2:50070"),)

    @pytest.mark.parametrize(
        ("authority", "rpc", "http"),
        [
            ("nn", "nn:8020", "http://nn:5"),
            ("nn:8020", "nn:8020", "http://nn:5"),
            ("far:9000", "far:9000", "http://far:9870"),
        ],
    )
    def test_an_address_is_found_with_and_without_its_port(self, authority: str, rpc: str, http: str) -> None:
        conf = HadoopConf(properties={"dfs.namenode.rpc-address": "nn:8020", "dfs.namenode.http-address": "0.0.0.0:5"})
        assert conf.namenodes(authority) == (NameNode(rpc, http),)

    def test_the_web_address_is_also_that_of_the_default(self) -> None:
        conf = HadoopConf(properties={"fs.defaultFS": "hdfs://nn", "dfs.namenode.http-address": "web:5"})
        assert conf.namenodes("nn") == (NameNode("nn:8020", "http://web:5"),)

    def test_half_a_name_service_is_refused(self) -> None:
        conf = HadoopConf(properties={"dfs.ha.namenodes.lake": "a"})
        with pytest.raises(ConfigError, match=r"hdfs://lake: .* has no dfs.namenode.rpc-address.lake.a"):
            conf.namenodes("lake")
